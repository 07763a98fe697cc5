#pragma once
// Functions that wait without a thread: co_await in an Async<T> lets go of the thread, and the function goes
// on where what it waited for was completed.
//
//   Async<int> twice(Queue& queue) { const int x = co_await queue.number(); co_return 2 * x; }
//   start(twice(queue), [](int x) { … }, [](std::exception_ptr) { … });
//
// An Async starts when it is awaited, and is awaited once.
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace bertie::serve {

template <class T>
class [[nodiscard]] Async {
 public:
  struct promise_type {
    std::optional<T> value;
    std::exception_ptr error;
    std::coroutine_handle<> continuation;

    Async get_return_object() { return Async(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Continue {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          return self.promise().continuation;
        }
        void await_resume() noexcept {}
      };
      return Continue{};
    }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Async(Async&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Async& operator=(Async&&) = delete;
  ~Async() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> continuation) noexcept {
    handle_.promise().continuation = continuation;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return std::move(*handle_.promise().value);
  }

 private:
  explicit Async(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// A function that nobody waits for, and that ends by itself.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Runs it to its end, and hands on what came out.
template <class T, class Done, class Failed>
Detached start(Async<T> work, Done done, Failed failed) {
  std::optional<T> result;
  std::exception_ptr error;
  try {
    result.emplace(co_await std::move(work));
  } catch (...) {
    error = std::current_exception();
  }
  if (error)
    failed(error);
  else
    done(std::move(*result));
}

}  // namespace bertie::serve
