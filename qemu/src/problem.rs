//! A [`Problem`]: one line that says what is wrong and, where known, what would work.
//! The program ends with exit status 2 when one reaches `main`.

use std::fmt;
use std::path::Path;

/// What stopped us, told in one line.
#[derive(Debug)]
pub struct Problem(String);

/// What most functions of this crate return.
pub type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    /// A problem told by `line`; further lines are folded into it.
    pub fn new(line: impl fmt::Display) -> Self {
        let text = line.to_string();
        let words: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        Problem(words.join("; "))
    }

    /// A problem with the file or program at `path`.
    pub fn at(path: &Path, what: impl fmt::Display) -> Self {
        Problem::new(format!("{}: {what}", path.display()))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for Problem {
    fn from(error: lexopt::Error) -> Self {
        Problem::new(format!("{error}; see --help"))
    }
}

/// Ends the calling function with a [`Problem`] made from a format string.
macro_rules! stop {
    ($($words:tt)*) => {
        return Err($crate::problem::Problem::new(format!($($words)*)))
    };
}
pub(crate) use stop;
