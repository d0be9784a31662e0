//! The server under test: what the `tenon` program does, in a process of its own that a test can start and kill.

fn main() -> std::process::ExitCode {
    tenon::main_entry()
}
