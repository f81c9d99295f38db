//! Lines for standard output.

use std::io::{ErrorKind, Write};

/// As `println!`, for a reader that may go away (`| head`): then the work goes on without words.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}

/// Writes a line. Where it cannot be written for another reason (a full disk), the program ends and says so; not after a
/// signal, which may be that of a closed terminal.
pub fn line(text: std::fmt::Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{text}")
        && error.kind() != ErrorKind::BrokenPipe
        && crate::stop::check().is_ok()
    {
        eprintln!("error: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}
