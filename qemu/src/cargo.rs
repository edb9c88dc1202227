//! `cargo test`: what it is asked for a filter, and which of its lines are worth showing.

use std::path::{Path, PathBuf};

/// What is off by default is tested all the same.
const FEATURES: [&str; 2] = [
    "--features",
    "spindle-executor/embassy-time,spindle-executor/trace",
];

/// Arguments of cargo for the tests that `filter` means, in the workspace at `root`: those of the
/// crate or of the file in `tests/` that is called so, else those with it in their names.
pub fn arguments(root: &Path, filter: &str) -> Vec<String> {
    let crates = crates(root);
    let short = filter.strip_prefix("spindle-").unwrap_or(filter);
    let file = format!("tests/{filter}.rs");
    let mut arguments = vec!["test", "--no-fail-fast"];
    let package = format!("spindle-{short}");
    let is_called = |directory: &PathBuf| directory.file_name().is_some_and(|name| name == short);
    if crates.iter().any(is_called) {
        arguments.extend(["-p", &package]);
        if short == "executor" {
            arguments.extend(FEATURES);
        }
    } else {
        arguments.push("--workspace");
        arguments.extend(FEATURES);
        if crates
            .iter()
            .any(|directory| directory.join(&file).exists())
        {
            arguments.extend(["--test", filter]);
        } else if !filter.is_empty() {
            arguments.extend(["--", filter]);
        }
    }
    arguments.into_iter().map(String::from).collect()
}

/// Directories of the crates.
fn crates(root: &Path) -> Vec<PathBuf> {
    let entries = root.read_dir().into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.join("Cargo.toml").exists())
        .collect()
}

/// Leaves out what a test program says that has nothing to run.
#[derive(Default)]
pub enum Quiet {
    /// Everything is shown.
    #[default]
    Off,
    /// A program has begun, and may have nothing to run.
    Holding(Vec<String>),
    /// It has nothing to run.
    Skipping,
    /// That was all of it but blank lines.
    Skipped,
}

impl Quiet {
    /// The lines that are to be shown now that `line` has come.
    pub fn pass(&mut self, line: &str) -> Vec<String> {
        if is_heading(line) {
            let before = self.finish();
            *self = Self::Holding(vec![line.into()]);
            return before;
        }
        match self {
            Self::Holding(held) if line.is_empty() => held.push(String::new()),
            Self::Holding(_) if line == "running 0 tests" => *self = Self::Skipping,
            Self::Skipping if line.starts_with("test result: ") => *self = Self::Skipped,
            Self::Skipping => {}
            Self::Skipped if line.is_empty() => {}
            _ => {
                let mut shown = self.finish();
                shown.push(line.into());
                return shown;
            }
        }
        Vec::new()
    }

    /// What was held back when no more comes.
    pub fn finish(&mut self) -> Vec<String> {
        match std::mem::take(self) {
            Self::Holding(held) => held,
            _ => Vec::new(),
        }
    }
}

/// The test program that begins with this line.
pub fn heading(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("Running ")
        .or_else(|| line.strip_prefix("Doc-tests "))
}

fn is_heading(line: &str) -> bool {
    heading(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(filter: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        arguments(&root, filter).join(" ")
    }

    #[test]
    fn a_filter_may_name_a_crate_a_file_or_tests() {
        let all = format!("test --no-fail-fast --workspace {}", FEATURES.join(" "));
        assert_eq!(asked(""), all);
        assert_eq!(asked("hal"), "test --no-fail-fast -p spindle-hal");
        assert_eq!(asked("spindle-hal"), asked("hal"));
        assert!(asked("executor").ends_with(&FEATURES.join(" ")));
        assert_eq!(asked("runner"), format!("{all} --test runner"));
        assert_eq!(asked("a_filter"), format!("{all} -- a_filter"));
    }

    #[test]
    fn programs_with_nothing_to_run_are_not_shown() {
        let said = "   Compiling a\n     Running src/lib.rs (a)\n\nrunning 0 tests\n\ntest result: ok. 0 passed\n\n     \
                    Running tests/b.rs (b)\n\nrunning 1 test\ntest b ... ok\n\ntest result: ok. 1 passed\n\n   \
                    Doc-tests a\n\nrunning 0 tests\n\ntest result: ok. 0 passed\n\nerror: 1 target failed";
        let mut quiet = Quiet::default();
        let mut shown: Vec<String> = said.lines().flat_map(|line| quiet.pass(line)).collect();
        shown.extend(quiet.finish());
        let expected = "   Compiling a\n     Running tests/b.rs (b)\n\nrunning 1 test\ntest b ... ok\n\n\
                        test result: ok. 1 passed\n\nerror: 1 target failed";
        assert_eq!(shown.join("\n"), expected);
    }

    #[test]
    fn what_a_program_says_that_dies_at_once_is_shown() {
        let mut quiet = Quiet::default();
        assert!(quiet.pass("     Running tests/b.rs (b)").is_empty());
        assert_eq!(quiet.finish().len(), 1);
    }
}
