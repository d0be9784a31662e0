//! The `tenon` command: see `tenon::main_entry`.

fn main() -> std::process::ExitCode {
    tenon::main_entry()
}
