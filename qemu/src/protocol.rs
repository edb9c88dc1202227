//! The structured lines of a console, which begin with `@@ `. Everything else is what the
//! current test printed.

use std::time::Duration;

/// The version of the protocol that this runner speaks.
pub const VERSION: u32 = 1;
/// How long a test may take that does not say.
const USUAL_LIMIT: Duration = Duration::from_secs(60);

/// One structured line.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    Spindle {
        version: u32,
        board: String,
        cores: u32,
    },
    Plan {
        tests: usize,
    },
    Begin {
        index: usize,
        name: String,
        limit: Duration,
    },
    Skip {
        index: usize,
        name: String,
        reason: String,
    },
    Ok {
        index: usize,
        name: String,
        time: Duration,
    },
    Fail {
        index: usize,
        name: String,
        message: String,
    },
    Note {
        text: String,
    },
    Panic {
        core: String,
        message: String,
    },
    Overflow {
        core: String,
        message: String,
    },
    PanicEnd,
    Bench {
        name: String,
        value: String,
        unit: String,
    },
    End {
        passed: usize,
        failed: usize,
    },
}

/// Reads a line. A record may follow on text that did not end its line, such as a prompt or
/// what another core was printing; that text is returned too.
pub fn read(line: &str) -> Option<(&str, Record)> {
    let mut starts = line.match_indices("@@ ").map(|(at, _)| at);
    starts.find_map(|at| Some((&line[..at], parse(&line[at + 3..])?)))
}

fn parse(text: &str) -> Option<Record> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut words = Words(rest);
    let record = match kind {
        "spindle" => Record::Spindle {
            version: words.number()?,
            board: words.after("board=")?.to_string(),
            cores: words.after("cores=")?.parse().ok()?,
        },
        "plan" => Record::Plan {
            tests: words.number()?,
        },
        "begin" => Record::Begin {
            index: words.number()?,
            name: words.word()?,
            limit: words.limit(),
        },
        "skip" => Record::Skip {
            index: words.number()?,
            name: words.word()?,
            reason: words.rest(),
        },
        "ok" => {
            let (index, name) = (words.number()?, words.word()?);
            let time = words
                .after("us=")
                .and_then(|us| us.parse().ok())
                .unwrap_or(0);
            Record::Ok {
                index,
                name,
                time: Duration::from_micros(time),
            }
        }
        "fail" => Record::Fail {
            index: words.number()?,
            name: words.word()?,
            message: words.rest(),
        },
        "note" => Record::Note { text: words.rest() },
        "panic" => Record::Panic {
            core: words.after("core=")?.to_string(),
            message: words.rest(),
        },
        "overflow" => Record::Overflow {
            core: words.after("core=")?.to_string(),
            message: words.rest(),
        },
        "panic-end" => Record::PanicEnd,
        "bench" => Record::Bench {
            name: words.word()?,
            value: words.word()?,
            unit: words.rest(),
        },
        "end" => Record::End {
            passed: words.after("passed=")?.parse().ok()?,
            failed: words.after("failed=")?.parse().ok()?,
        },
        _ => return None,
    };
    Some(record)
}

/// Takes words off the front of a line.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn word(&mut self) -> Option<String> {
        self.next().map(str::to_string)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.next()?.parse().ok()
    }

    /// The value of `key=value`, which must come next.
    fn after(&mut self, key: &str) -> Option<&'a str> {
        self.next()?.strip_prefix(key)
    }

    fn limit(&mut self) -> Duration {
        let seconds = self
            .after("limit=")
            .and_then(|seconds| seconds.parse().ok());
        seconds.map_or(USUAL_LIMIT, Duration::from_secs)
    }

    fn rest(&mut self) -> String {
        self.0.trim().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: &str) -> Option<Record> {
        read(line).map(|(_, record)| record)
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let named = |index, name: &str| (index, name.to_string());
        let (index, name) = named(7, "a::b");
        assert_eq!(
            record("@@ spindle 1 board=pc cores=4"),
            Some(Record::Spindle {
                version: 1,
                board: "pc".into(),
                cores: 4
            })
        );
        assert_eq!(record("@@ plan 12"), Some(Record::Plan { tests: 12 }));
        let limit = Duration::from_secs(3);
        assert_eq!(
            record("@@ begin 7 a::b limit=3"),
            Some(Record::Begin {
                index,
                name: name.clone(),
                limit
            })
        );
        let time = Duration::from_micros(1500);
        assert_eq!(
            record("@@ ok 7 a::b us=1500"),
            Some(Record::Ok {
                index,
                name: name.clone(),
                time
            })
        );
        let message = "left != right".to_string();
        assert_eq!(
            record("@@ fail 7 a::b left != right"),
            Some(Record::Fail {
                index,
                name: name.clone(),
                message
            })
        );
        let reason = "one core only".to_string();
        assert_eq!(
            record("@@ skip 7 a::b one core only"),
            Some(Record::Skip {
                index,
                name,
                reason
            })
        );
        assert_eq!(
            record("@@ note 12 us a wake"),
            Some(Record::Note {
                text: "12 us a wake".into()
            })
        );
        let (core, message) = ("2".to_string(), "oh no".to_string());
        let (core2, message2) = (core.clone(), message.clone());
        assert_eq!(
            record("@@ panic core=2 oh no"),
            Some(Record::Panic { core, message })
        );
        assert_eq!(
            record("@@ overflow core=2 oh no"),
            Some(Record::Overflow {
                core: core2,
                message: message2
            })
        );
        assert_eq!(record("@@ panic-end"), Some(Record::PanicEnd));
        let (name, value, unit) = ("spawn".into(), "123".into(), "instructions".into());
        assert_eq!(
            record("@@ bench spawn 123 instructions"),
            Some(Record::Bench { name, value, unit })
        );
        assert_eq!(
            record("@@ end passed=3 failed=1 skipped=0"),
            Some(Record::End {
                passed: 3,
                failed: 1
            })
        );
    }

    #[test]
    fn a_test_that_does_not_say_gets_the_usual_limit() {
        let Some(Record::Begin { limit, .. }) = record("@@ begin 0 a") else {
            panic!()
        };
        assert_eq!(limit, USUAL_LIMIT);
    }

    #[test]
    fn a_record_is_found_behind_a_line_that_did_not_end() {
        let (before, record) = read("waiting... @@ ok 3 slow us=5").unwrap();
        assert_eq!(before, "waiting... ");
        assert!(matches!(record, Record::Ok { index: 3, .. }));
        let (before, record) = read("@@ nonsense @@ panic core=1 x").unwrap();
        assert_eq!(before, "@@ nonsense ");
        assert!(matches!(record, Record::Panic { .. }));
    }

    #[test]
    fn what_only_looks_like_a_record_is_console_text() {
        for line in [
            "",
            "@@",
            "@@ ",
            "@@ ok",
            "@@ ok x y",
            "@@plan 3",
            "@@ plan many",
            "plan 3",
            "@@ begin 3",
            "a @ b",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
