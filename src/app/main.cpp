#include "app/program.h"
#include "properties/law.h"

int main(int argc, char** argv) {
  const slicecheck::engine::Lookup engines = slicecheck::engine::built_in;
  return slicecheck::app::run(argc, argv, {engines, slicecheck::properties::Subject()});
}
