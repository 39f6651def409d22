#include "app/program.h"

int main(int argc, char** argv) {
  return slicecheck::app::run(argc, argv, slicecheck::engine::built_in);
}
