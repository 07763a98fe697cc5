// bertie serve, in the table of options.h.
#include "cli/options.h"

namespace bertie::cli {
namespace {

Option limit(std::string_view name, std::string_view help, std::string_view standard,
             std::optional<size_t> Settings::*to, size_t most = 1'000'000'000) {
  return {
      .name = name, .argument = "N", .help = help, .standard = standard, .to = to, .least = 1, .most = most};
}

Option timeout(std::string_view name, std::string_view help, std::string_view standard,
               std::optional<double> Settings::*to) {
  return {.name = name,
          .argument = "SECONDS",
          .help = help,
          .standard = standard,
          .to = to,
          .least = 1,
          .most = 86'400};
}

Option run_option() {
  return {
      .name = "run",
      .argument = "DIR",
      .help =
          "show the curves of this run's log.jsonl on the page, and of others that are given so; NAME=DIR to "
          "call it otherwise",
      .to = &Settings::runs};
}

}  // namespace

std::vector<Command> serve_commands() {
  return {
      {.name = "serve",
       .words = "[MODEL...]",
       .most_words = SIZE_MAX,
       .summary = "answer over HTTP: OpenAI's, TEI's and Hugging Face's APIs, and attention",
       .about =
           "Loads each MODEL (a folder, a name that was pulled, or NAME=MODEL to call it otherwise) and "
           "answers over "
           "HTTP until it is stopped; without MODEL, with the models that are part of the program. Of "
           "several, the "
           "first that can do what is asked does it, unless a request names another one.\n\n"
           "It speaks OpenAI's embeddings, text-embeddings-inference, Hugging Face's inference, and routes "
           "of its own "
           "for attention, its steps, senses and scores: docs/serving.md, or GET /openapi.json. Texts of "
           "different "
           "requests share passes through the model, and get the same bits as alone.\n\n"
           "Ctrl-C and SIGTERM take no more requests and answer those that have come; SIGHUP loads the "
           "models again, "
           "without losing a request. Every option may come from the environment: --port from BERTIE_PORT.",
       .options =
           {{.name = "address",
             .argument = "IP",
             .help = "address to listen at; 0.0.0.0 is reached from elsewhere",
             .standard = "127.0.0.1",
             .to = &Settings::address},
            {.name = "port",
             .argument = "N",
             .help = "port to listen at; 0: any that is free",
             .standard = "8080",
             .to = &Settings::port,
             .most = 65535},
            {.name = "keys",
             .argument = "FILE",
             .help = "bearer keys, one a line, of which a request needs one; read again when it changes",
             .to = &Settings::keys},
            {.name = "cors",
             .argument = "ORIGIN",
             .help = "pages of this origin may call from a browser; *: all pages",
             .standard = "none",
             .to = &Settings::cors},
            run_option(),
            {.name = "log",
             .help = "a line of JSON on standard error for every request",
             .to = &Settings::log},
            cut_option(),
            precision_option(),
            limit("batch-tokens", "tokens that go through a model together", "512", &Settings::batch_tokens),
            limit("queue", "requests that may wait; others are refused with 429", "1024", &Settings::queue),
            limit("max-body", "bytes of a request", "2097152", &Settings::max_body),
            limit("max-inputs", "texts of a request", "2048", &Settings::max_inputs),
            limit("max-tokens", "tokens of a request", "131072", &Settings::max_tokens),
            limit("max-top-k", "answers of any kind that may be asked for", "1000", &Settings::max_top_k),
            limit("max-connections", "connections", "4096", &Settings::max_connections),
            limit("max-connections-per-address", "connections of one address; a proxy is one", "1024",
                  &Settings::max_connections_per_address),
            timeout("request-timeout", "for a request to arrive whole", "10", &Settings::request_timeout),
            timeout("idle-timeout", "for the next request of a connection", "60", &Settings::idle_timeout),
            timeout("write-timeout", "for a client to take its reply", "30", &Settings::write_timeout),
            timeout("queue-timeout", "in the queue, before a request is given up with 503", "30",
                    &Settings::queue_timeout),
            timeout("drain-timeout", "for what has come to be answered when it is stopped", "30",
                    &Settings::drain_timeout)},
       .examples = {{"bertie serve", "with the embedded models, at http://127.0.0.1:8080"},
                    {"bertie serve all-MiniLM-L6-v2", "another one"},
                    {"bertie serve embedder=all-MiniLM-L6-v2 sentiment=run/best --keys keys.txt",
                     "two, by name"},
                    {"curl -s localhost:8080/v1/embeddings -d '{\"input\": \"hello world\"}'",
                     "and from elsewhere"}},
       .run = serve_command,
       .variables = true},
      {.name = "view",
       .words = "[TEXT]",
       .most_words = 1,
       .summary = "watch attention work, in a browser",
       .about = "Starts the service of `bertie serve` at a free port of this machine, prints the link to its "
                "page, "
                "and opens it where there is a desktop. The page shows every head of the text at once and "
                "each one "
                "large, walks through attention step by step, compares mechanisms, and lets one try the "
                "tasks that "
                "the model can do: docs/seeing.md. It needs no network.",
       .options =
           {{.name = "pair", .argument = "TEXT", .help = "second text of a pair", .to = &Settings::pair},
            run_option(),
            {.name = "layer",
             .letter = 'l',
             .argument = "L",
             .help = "layer to open with, from 1",
             .standard = "5",
             .to = &Settings::layer,
             .least = 1},
            {.name = "head",
             .argument = "H",
             .help = "head to open with, from 1",
             .standard = "3",
             .to = &Settings::head,
             .least = 1},
            {.name = "port",
             .argument = "N",
             .help = "port to listen at",
             .standard = "any that is free",
             .to = &Settings::port,
             .most = 65535},
            {.name = "no-open", .help = "only print the link", .to = &Settings::no_open},
            precision_option()},
       .examples = {{"bertie view -m bert-base-uncased \"The bank deposited the money near the river bank.\"",
                     "opens the page"},
                    {"bertie view -m bert-base-uncased --no-open", "prints its link"}},
       .run = view_command},
  };
}

}  // namespace bertie::cli
