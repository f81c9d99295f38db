//! Lines for standard output.

use siskin_data::shell::one_line;
use siskin_train::team;
use std::borrow::Cow;
use std::io::{ErrorKind, Write};

/// As `println!`, for a reader that may go away (`| head`): then the work goes on without words.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}

/// As `eprintln!`, for standard error.
macro_rules! tell {
    ($($text:tt)*) => { $crate::out::error_line(format_args!($($text)*)) };
}

/// Writes a line; of several ranks the first one does. Where it cannot be written for another reason than a reader that went away
/// (a full disk), the program ends and says so.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    let team = team::current();
    if team.rank() > 0 {
        return;
    }
    if let Err(error) = writeln!(std::io::stdout().lock(), "{}", visible(&text.to_string()))
        && matters(&error, crate::stop::is_requested(), team.size())
    {
        tell!("error: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// Whether a line that cannot be written is a reason to end. Not where somebody was asked to save and stop: that comes first, and
/// the terminal may be closed. Nor for one of `ranks`, whose standard output is a line to `mpirun`: that may go away at any time,
/// which is no broken pipe there but an error of the device, and what is to be done then its relay says.
fn matters(error: &std::io::Error, stopping: bool, ranks: usize) -> bool {
    error.kind() != ErrorKind::BrokenPipe && !stopping && ranks == 1
}

/// Writes a line to standard error. Where nobody can read it there is nobody to tell.
pub(crate) fn error_line(text: std::fmt::Arguments<'_>) {
    if team::current().rank() > 0 {
        return;
    }
    let _ = writeln!(std::io::stderr().lock(), "{}", one_message(&text.to_string()));
}

/// Says why the program fails. Of several ranks the first one speaks; another one only of what the first cannot know.
pub(crate) fn failure(error: &anyhow::Error) {
    use siskin_train::Error::{NotFinite, Rank, RankLost};
    let why = crate::sentence(error);
    let rank = team::current().rank();
    if rank == 0 {
        tell!("error: {why}");
    } else if !matches!(error.downcast_ref(), Some(Rank { .. } | RankLost | NotFinite { .. })) {
        let _ = writeln!(std::io::stderr().lock(), "rank {rank}: error: {}", one_message(&why));
    }
}

/// The text with control characters written out, for a terminal would obey them: names of files and classes may come from
/// anywhere. Line ends and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| (c.is_control() && c != '\n' && c != '\t') || BIDI.contains(&c);
    if !text.contains(obeyed) {
        return text.into();
    }
    let escaped = text.chars().map(|c| if obeyed(c) { c.escape_unicode().to_string() } else { c.into() });
    escaped.collect::<String>().into()
}

/// A name as part of a line: line ends and tabs are written out too, for what follows them would look like ours.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    one_line(&visible(text)).into_owned().into()
}

/// A message for a terminal. Its further lines stand apart from the left side, where only our messages begin: a name within it may
/// have line ends.
fn one_message(text: &str) -> Cow<'_, str> {
    let text = visible(text);
    match text.trim_end().contains('\n') {
        false => text,
        true => text.replace('\n', "\n  ").into(),
    }
}

/// Characters that turn the direction of what follows.
const BIDI: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// A writer to a terminal or a file for people: see [`visible`].
pub(crate) struct Visible<W>(pub W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Our lines are text; of other bytes the readable part is shown.
        self.0.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{matters, name, one_message, visible};
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_line_that_cannot_be_written_never_ends_who_has_to_save() {
        let [full, gone, closed] =
            [ErrorKind::StorageFull, ErrorKind::BrokenPipe, ErrorKind::Other].map(Error::from);
        assert!(matters(&full, false, 1) && matters(&closed, false, 1));
        for (error, stopping, ranks) in
            [(&gone, false, 1), (&full, true, 1), (&closed, true, 1), (&closed, false, 3)]
        {
            assert!(!matters(error, stopping, ranks), "{error} {stopping} {ranks}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible("a\u{1b}[2Jb\r\n\tc"), "a\\u{1b}[2Jb\\u{d}\n\tc");
        assert_eq!(visible("\u{9b}31m \u{202e}x"), "\\u{9b}31m \\u{202e}x");
        assert_eq!(visible("\u{200e}\u{200f}\u{61c}"), "\\u{200e}\\u{200f}\\u{61c}");
        assert_eq!(visible("größe 字"), "größe 字");
    }

    #[test]
    fn no_name_makes_a_line_that_looks_like_ours() {
        let forged = "\nerror: forged line.png";
        assert_eq!(name(forged), "\\u{a}error: forged line.png");
        assert_eq!(
            one_message(&format!("error: {forged}: not there")),
            "error: \n  error: forged line.png: not there"
        );
        assert_eq!(one_message("one line\n"), "one line\n");
    }
}
