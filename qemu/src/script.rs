//! Console scripts: what to wait for on a guest's console and what to type, each with a time limit.
//!
//! ```text
//! # a comment
//! limit 30            seconds that each following step may take (60 unless told)
//! expect spindle>     wait for this text, after what the last step found
//! expect 4 cores | cores=4      ... or for one of several
//! fail *** panic      give up as soon as this is printed, whatever step it is
//! send help           type this and Enter
//! type ca^I           type this only; ^I is Ctrl-I (Tab), ^[ is Escape
//! exit 0              wait until the guest exits with this code
//! ```
//!
//! A script that ends without `exit` leaves the guest running, for its caller to go on with.

use crate::board::Arch;
use crate::exit::GuestExit;
use crate::guest::{Event, Guest};
use crate::inspect;
use crate::problem::{Result, stop};
use crate::symbols::Symbols;
use crate::verdict::Kind;
use std::time::{Duration, Instant};

const USUAL_LIMIT: Duration = Duration::from_secs(60);
/// Once it is known to have failed, a guest that says nothing for so long has said it all ...
const LAST_WORDS: Duration = Duration::from_secs(2);
/// ... and one that does not stop is not listened to any longer.
const MOST_LAST_WORDS: Duration = Duration::from_secs(15);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Action {
    Expect(Vec<String>),
    Send(String),
    Exit(u8),
}

/// A script, ready to play.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    steps: Vec<(Action, Duration)>,
    /// Texts that end it wherever they come.
    fatal: Vec<String>,
}

/// How a script went.
pub enum Played {
    /// To its end, with the guest still running.
    Running(Box<Guest>),
    /// To its end, which was the guest's too.
    Exited,
    /// Not to its end.
    Wrong { kind: Kind, message: String },
}

impl Script {
    pub fn parse(text: &str) -> Result<Script> {
        let mut limit = USUAL_LIMIT;
        let mut steps = Vec::new();
        let mut fatal = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            match (word, rest.parse()) {
                ("limit", Ok(seconds)) => limit = Duration::from_secs(seconds),
                ("exit", Ok(code)) if code < 0x70 => steps.push((Action::Exit(code as u8), limit)),
                ("expect", _) if rest.split(" | ").all(|text| !text.trim().is_empty()) => {
                    let texts = rest.split(" | ").map(|text| text.trim().to_string());
                    steps.push((Action::Expect(texts.collect()), limit));
                }
                ("fail", _) if !rest.is_empty() => fatal.push(rest.to_string()),
                ("send", _) => steps.push((Action::Send(format!("{rest}\r")), limit)),
                ("type", _) if !rest.is_empty() => steps.push((Action::Send(keys(rest)), limit)),
                _ => stop!(
                    "line {} of the console script is not understood: {line}",
                    number + 1
                ),
            }
        }
        Ok(Script { steps, fatal })
    }

    /// Plays it to a `guest`. Everything the guest says is added to `console` and shown to `echo`.
    pub fn play(
        &self,
        mut guest: Guest,
        (arch, symbols): (Arch, &Symbols),
        console: &mut Vec<u8>,
        echo: &mut dyn FnMut(&[u8]),
    ) -> Played {
        let mut found = console.len();
        for (action, limit) in &self.steps {
            let until = Instant::now() + *limit;
            match action {
                Action::Send(text) => {
                    if let Err(problem) = guest.send(text) {
                        return Played::Wrong {
                            kind: Kind::ExitedEarly,
                            message: problem.to_string(),
                        };
                    }
                    continue;
                }
                Action::Expect(_) | Action::Exit(_) => {}
            }
            loop {
                if let Action::Expect(texts) = action
                    && let Some(end) = find(&console[found..], texts)
                {
                    found += end;
                    break;
                }
                if let Some(end) = find(console, &self.fatal) {
                    hear_out(&mut guest, console, echo);
                    let message = line_at(console, end);
                    let kind = Kind::Panicked;
                    return Played::Wrong { kind, message };
                }
                match guest.next(until) {
                    Event::Console(bytes) => {
                        echo(&bytes);
                        console.extend(bytes);
                    }
                    Event::Gone => return ended(guest, action),
                    Event::Late => {
                        let backtraces = inspect::all_cores(guest.qmp(), arch, symbols);
                        console.push(b'\n');
                        console.extend(backtraces.as_bytes());
                        let message = format!("{} within {} s", action.missed(), limit.as_secs());
                        return Played::Wrong {
                            kind: Kind::Hung,
                            message,
                        };
                    }
                }
            }
        }
        Played::Running(Box::new(guest))
    }
}

/// With `^X` for Ctrl-X.
fn keys(text: &str) -> String {
    let mut parts = text.split('^');
    let mut keys = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let mut rest = part.chars();
        if let Some(key) = rest.next() {
            keys.push((key as u8 & 0x1f) as char);
        }
        keys.push_str(rest.as_str());
    }
    keys
}

/// Waits for the end of a report that has begun.
fn hear_out(guest: &mut Guest, console: &mut Vec<u8>, echo: &mut dyn FnMut(&[u8])) {
    let end = Instant::now() + MOST_LAST_WORDS;
    while let Event::Console(bytes) = guest.next(end.min(Instant::now() + LAST_WORDS)) {
        echo(&bytes);
        console.extend(bytes);
        if Instant::now() >= end {
            return;
        }
    }
}

/// The line of the console that `end` is in or behind.
fn line_at(console: &[u8], end: usize) -> String {
    let text = String::from_utf8_lossy(&console[end.saturating_sub(1)..]);
    let before = String::from_utf8_lossy(&console[..end.saturating_sub(1)]);
    let start = before.rsplit('\n').next().unwrap_or_default();
    let rest = text.lines().next().unwrap_or_default();
    format!("{start}{rest}").trim().to_string()
}

/// The guest ended; only `exit` had waited for that.
fn ended(guest: Guest, action: &Action) -> Played {
    let exit = match guest.exit() {
        Ok(exit) => exit,
        Err(problem) => {
            return Played::Wrong {
                kind: Kind::ExitedEarly,
                message: problem.to_string(),
            };
        }
    };
    match (&exit, action) {
        (GuestExit::Code(code), Action::Exit(expected)) if code == expected => Played::Exited,
        (GuestExit::Reset, _) => Played::Wrong {
            kind: Kind::Reset,
            message: exit.to_string(),
        },
        (_, Action::Exit(expected)) => Played::Wrong {
            kind: Kind::Failed,
            message: format!("{exit}; expected code {expected}"),
        },
        _ => Played::Wrong {
            kind: Kind::ExitedEarly,
            message: format!("{}; {exit}", action.missed()),
        },
    }
}

impl Action {
    /// What did not happen.
    fn missed(&self) -> String {
        match self {
            Action::Expect(texts) => format!("did not print `{}`", texts.join("` or `")),
            Action::Send(text) => format!("did not take `{}`", text.trim_end()),
            Action::Exit(code) => format!("did not exit with code {code}"),
        }
    }
}

/// Where the first of `texts` to appear ends.
fn find(console: &[u8], texts: &[String]) -> Option<usize> {
    let end = |text: &String| {
        let windows = console.windows(text.len());
        windows
            .enumerate()
            .find(|(_, window)| *window == text.as_bytes())
            .map(|(at, _)| at + text.len())
    };
    texts.iter().filter_map(end).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_line_by_line() {
        let script = Script::parse(
            "# hello\n\nexpect 4 cores | cores=4\nlimit 5\nsend help me\ntype a^I^[[A\nexit 0\n",
        )
        .unwrap();
        assert_eq!(
            script.steps,
            [
                (
                    Action::Expect(vec!["4 cores".into(), "cores=4".into()]),
                    USUAL_LIMIT
                ),
                (Action::Send("help me\r".into()), Duration::from_secs(5)),
                (Action::Send("a\t\x1b[A".into()), Duration::from_secs(5)),
                (Action::Exit(0), Duration::from_secs(5)),
            ]
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for text in [
            "expect a\nlimit soon",
            "expect a\nexpect",
            "expect a\nexpect a |  | b",
            "\nexit",
            "\nwait 3",
        ] {
            let problem = Script::parse(text).unwrap_err().to_string();
            assert!(
                problem.starts_with("line 2 of the console script"),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_fatal_text_is_told_with_its_line() {
        let script = Script::parse("fail *** panic\nexit 0").unwrap();
        assert_eq!(script.fatal, ["*** panic"]);
        let console = b"one\r\n*** panic: oh no\r\nthree";
        let end = find(console, &script.fatal).unwrap();
        assert_eq!(line_at(console, end), "*** panic: oh no");
        assert_eq!(line_at(b"x", 1), "x");
    }

    #[test]
    fn the_first_text_to_appear_counts() {
        let texts = ["bb".to_string(), "a".to_string()];
        assert_eq!(find(b"xbbxa", &texts), Some(3));
        assert_eq!(find(b"xaxbb", &texts), Some(2));
        assert_eq!(find(b"xb", &texts), None);
    }
}
