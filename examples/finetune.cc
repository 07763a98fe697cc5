// A classifier from a table with texts and labels, and a student of half its size.
//   example_finetune MODEL TABLE FOLDER        for instance bert-base-uncased reviews.csv classifiers
#include <bertie/bertie.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) try {
  if (argc != 4) return std::fprintf(stderr, "usage: %s MODEL TABLE FOLDER\n", argv[0]), 2;
  const std::filesystem::path folder = argv[3];

  bertie::FinetuneJob job{.model = argv[1], .train_file = argv[2]};
  job.train.out = folder / "teacher";
  bertie::FinetuneEvents events;
  events.evaluated = [](const bertie::EvalResult& r) {
    std::printf("step %zu: %s %.4f\n", size_t(r.step), r.scores[0].name.c_str(), r.scores[0].value);
  };
  bertie::finetune(job, events);

  bertie::FinetuneJob student{.teaching = {.teacher = job.train.out.string()}, .train_file = argv[2]};
  student.train.out = folder / "student";
  bertie::finetune(student, events);

  const auto model = bertie::load(student.train.out);
  for (const bertie::Scored& s : model.classify("A fine film.").labels)
    std::printf("%-12s %.4f\n", s.label.c_str(), s.score);
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
