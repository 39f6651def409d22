// What the laws are about that lies above them: the commands' own work on files.
#pragma once

namespace slicecheck::properties {
struct Subject;
}  // namespace slicecheck::properties

namespace slicecheck::app {

/// `subject` with what `verify` and `reshard` do with a dump and a checkpoint, where it does not
/// say something else.
properties::Subject with_commands(const properties::Subject& subject);

}  // namespace slicecheck::app
