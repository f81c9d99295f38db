//! Paths in commands that people paste into a shell, and in lines that they read.

use std::borrow::Cow;
use std::path::Path;

/// The path as one word of a POSIX shell: in quotes where it has to be.
pub fn quoted(path: impl AsRef<Path>) -> String {
    let text = path.as_ref().display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c) || !c.is_ascii();
    // A path that begins like an option would be taken for one.
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    if !text.is_empty() && text.chars().all(|c| plain(c) && !c.is_whitespace() && !c.is_control()) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A name on one line: control characters, line ends too, are written out.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let written =
        text.chars().map(|c| if c.is_control() { c.escape_unicode().to_string() } else { c.into() });
    written.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::{one_line, quoted};
    use std::process::Command;

    #[test]
    fn plain_paths_stay_as_they_are() {
        for path in ["runs/omniglot", "a-b_c.task", "größe/字", "C:/x"] {
            assert_eq!(quoted(path), path);
        }
        assert_eq!(quoted("-x"), "./-x");
    }

    #[test]
    fn a_name_keeps_to_its_line() {
        assert_eq!(one_line("größe 字 b"), "größe 字 b");
        assert_eq!(one_line("a\nerror: b\r\t\u{1b}"), "a\\u{a}error: b\\u{d}\\u{9}\\u{1b}");
    }

    /// A shell makes of the word what it was.
    #[test]
    #[cfg(unix)]
    fn a_shell_reads_back_what_was_quoted() {
        for path in
            ["my pics.task", "it's", "$HOME `x`", "a\"b\\c", "", "new\nline", "*?[a] & ; |", "~x", "#y"]
        {
            let command = format!("printf %s {}", quoted(path));
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), path, "{command}");
        }
    }
}
