//! `bench`: runs the benchmarks twice with time counted in instructions. The two runs must agree
//! to the instruction, or the figures mean nothing.

use crate::exit::GuestExit;
use crate::files;
use crate::guest::{Event, Guest};
use crate::lines::Lines;
use crate::machine::{Clock, Machine};
use crate::options::Options;
use crate::problem::{Problem, Result, stop};
use crate::protocol::{self, Record};
use crate::symbols;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const USUAL_LIMIT: Duration = Duration::from_secs(900);
/// Console lines shown of a run that went wrong.
const MOST_SHOWN: usize = 40;

/// What one run measured.
#[derive(Default, PartialEq, Debug)]
struct Run {
    entries: Vec<Entry>,
    compiler: Option<String>,
    notes: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
struct Entry {
    name: String,
    value: String,
    unit: String,
}

pub fn bench(options: &Options) -> Result<u8> {
    let machine = Machine {
        clock: Clock::Instructions,
        ..options.machine()?
    };
    let image = machine.image(&options.images()?, "bench");
    machine.board.check_qemu()?;
    let filter = &options.filter;
    let limit = options.limit(USUAL_LIMIT);
    println!("{}, time counted in instructions", machine.title());
    // All of them run, whatever is asked for: a different command line would be a different run.
    let mut first = once(&machine, &image, "bench", limit)?;
    let second = once(&machine, &image, "bench", limit)?;
    let differences = differences(&first, &second);
    if !differences.is_empty() {
        eprintln!("spindle-qemu: two runs of the same image measured different things:");
        for difference in differences {
            eprintln!("  {difference}");
        }
        return Ok(1);
    }
    first
        .entries
        .push(size_of_blink(&machine, &options.images()?)?);
    let all = first.entries.len();
    let shown: Vec<Entry> = first
        .entries
        .iter()
        .filter(|entry| entry.name.contains(filter.as_str()))
        .cloned()
        .collect();
    if shown.is_empty() {
        let names: Vec<&str> = first
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        stop!(
            "no benchmark has `{filter}` in its name; there are: {}",
            names.join(", ")
        );
    }
    print!("{}", table(&shown));
    for note in &first.notes {
        println!("note: {note}");
    }
    if shown.len() < all {
        println!("both runs agree; not written, as these are not all");
        return Ok(0);
    }
    first.entries = shown;
    let path = PathBuf::from(format!("target/bench/{}.json", machine.board.name()));
    let text = serde_json::to_string_pretty(&json(&machine, &first)).unwrap_or_default();
    files::write(&path, (text + "\n").as_bytes())?;
    println!("both runs agree; written to {}", path.display());
    Ok(0)
}

/// How large the image without heap and runtime is, as it was linked.
fn size_of_blink(machine: &Machine, images: &Path) -> Result<Entry> {
    let path = files::with_suffix(&machine.image(images, "blink"), ".elf");
    let size = symbols::loaded_bytes(&files::read(&path)?)
        .map_err(|problem| Problem::at(&path, problem))?;
    Ok(Entry {
        name: "blink_image_bytes".into(),
        value: size.to_string(),
        unit: "bytes".into(),
    })
}

/// Boots the image once and collects what it measures.
fn once(machine: &Machine, image: &Path, words: &str, limit: Duration) -> Result<Run> {
    let terminal = std::io::stdout().is_terminal();
    let until = Instant::now() + limit;
    let mut guest = Guest::boot(machine, image, words)?;
    let mut run = Run::default();
    let mut console: Vec<String> = Vec::new();
    let mut lines = Lines::default();
    let exit = loop {
        match guest.next(until) {
            Event::Console(bytes) => {
                for line in lines.push(&bytes) {
                    if terminal {
                        print!(
                            "\r\x1b[K  {:.70}",
                            line.replace(|c: char| c.is_control(), "")
                        );
                        let _ = std::io::stdout().flush();
                    }
                    run.line(&line);
                    console.push(line);
                }
            }
            Event::Gone => break Some(guest.exit()?),
            Event::Late => break None,
        }
    };
    if terminal {
        print!("\r\x1b[K");
    }
    match exit {
        Some(GuestExit::Code(0)) => Ok(run),
        other => {
            for line in &console[console.len().saturating_sub(MOST_SHOWN)..] {
                eprintln!("  | {line}");
            }
            match other {
                Some(exit) => stop!("the benchmarks did not end well: {exit}"),
                None => stop!(
                    "the benchmarks did not end within {} s; --limit gives more",
                    limit.as_secs()
                ),
            }
        }
    }
}

impl Run {
    fn line(&mut self, line: &str) {
        match protocol::read(line) {
            Some((_, Record::Bench { name, value, unit })) => {
                self.entries.push(Entry { name, value, unit })
            }
            Some((_, Record::Note { text })) => match text.strip_prefix("compiler=") {
                Some(compiler) => self.compiler = Some(compiler.to_string()),
                None => self.notes.push(text),
            },
            _ => {}
        }
    }
}

/// What one run measured otherwise than the other.
fn differences(first: &Run, second: &Run) -> Vec<String> {
    let mut found = Vec::new();
    for number in 0..first.entries.len().max(second.entries.len()) {
        let (a, b) = (first.entries.get(number), second.entries.get(number));
        if a != b {
            let told = |entry: Option<&Entry>| match entry {
                Some(entry) => format!("{} {} {}", entry.name, entry.value, entry.unit),
                None => "nothing".to_string(),
            };
            found.push(format!("first {}, then {}", told(a), told(b)));
        }
    }
    found
}

/// Names to the left, figures to the right.
fn table(entries: &[Entry]) -> String {
    let width = |of: fn(&Entry) -> &str| {
        entries
            .iter()
            .map(|entry| of(entry).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (names, values) = (width(|entry| &entry.name), width(|entry| &entry.value));
    let line = |entry: &Entry| {
        format!(
            "  {:names$}  {:>values$} {}\n",
            entry.name, entry.value, entry.unit
        )
    };
    entries.iter().map(line).collect()
}

fn json(machine: &Machine, run: &Run) -> Value {
    let number = |value: &str| match (value.parse::<u64>(), value.parse::<f64>()) {
        (Ok(whole), _) => json!(whole),
        (_, Ok(fraction)) => json!(fraction),
        _ => json!(value),
    };
    let entry = |entry: &Entry| json!({"name": entry.name, "value": number(&entry.value), "unit": entry.unit});
    json!({
        "board": machine.board.name(),
        "cores": machine.cores,
        "compiler": run.compiler,
        "entries": run.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;

    fn run(lines: &[&str]) -> Run {
        let mut run = Run::default();
        lines.iter().for_each(|line| run.line(line));
        run
    }

    #[test]
    fn figures_the_compiler_and_notes_are_collected() {
        let run = run(&[
            "noise",
            "@@ note compiler=rustc 1.96",
            "@@ bench spawn 120 instructions",
            "@@ note hot cache",
        ]);
        assert_eq!(run.compiler.as_deref(), Some("rustc 1.96"));
        assert_eq!(run.notes, ["hot cache"]);
        let json = json(&Machine::new(Board::Pc, 4), &run);
        assert_eq!(
            json["entries"][0],
            json!({"name": "spawn", "value": 120, "unit": "instructions"})
        );
        assert_eq!(json["board"], "pc");
    }

    #[test]
    fn every_difference_between_two_runs_is_named() {
        let first = run(&["@@ bench a 1 x", "@@ bench b 2 x", "@@ bench c 3 x"]);
        let second = run(&["@@ bench a 1 x", "@@ bench b 9 x"]);
        assert_eq!(
            differences(&first, &second),
            ["first b 2 x, then b 9 x", "first c 3 x, then nothing"]
        );
        assert!(differences(&first, &first).is_empty());
    }

    #[test]
    fn the_table_is_aligned() {
        let run = run(&["@@ bench a 1 x", "@@ bench long 200 y"]);
        assert_eq!(table(&run.entries), "  a       1 x\n  long  200 y\n");
    }
}
