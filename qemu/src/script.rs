//! Console scripts: what to wait for on a guest's console and what to type, each with a time limit.
//!
//! ```text
//! # a comment
//! limit 30            seconds that each following step may take (60 unless told)
//! expect spindle>     wait for this text, after what the last step found
//! expect 4 cores | cores=4      ... or for one of several
//! send help           type this and Enter
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
                ("expect", _) if !rest.is_empty() => {
                    let texts = rest.split(" | ").map(|text| text.trim().to_string());
                    steps.push((Action::Expect(texts.collect()), limit));
                }
                ("send", _) => steps.push((Action::Send(rest.to_string()), limit)),
                _ => stop!(
                    "line {} of the console script is not understood: {line}",
                    number + 1
                ),
            }
        }
        Ok(Script { steps })
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
                    if let Err(problem) = guest.send(&format!("{text}\r")) {
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
            Action::Send(text) => format!("did not take `{text}`"),
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
        let script =
            Script::parse("# hello\n\nexpect 4 cores | cores=4\nlimit 5\nsend help me\nexit 0\n")
                .unwrap();
        assert_eq!(
            script.steps,
            [
                (
                    Action::Expect(vec!["4 cores".into(), "cores=4".into()]),
                    USUAL_LIMIT
                ),
                (Action::Send("help me".into()), Duration::from_secs(5)),
                (Action::Exit(0), Duration::from_secs(5)),
            ]
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for text in [
            "expect a\nlimit soon",
            "expect a\nexpect",
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
    fn the_first_text_to_appear_counts() {
        let texts = ["bb".to_string(), "a".to_string()];
        assert_eq!(find(b"xbbxa", &texts), Some(3));
        assert_eq!(find(b"xaxbb", &texts), Some(2));
        assert_eq!(find(b"xb", &texts), None);
    }
}
