//! Somewhere to run `spindle-qemu` with a fake QEMU: a folder with images, and what came of it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const RUNNER: &str = env!("CARGO_BIN_EXE_spindle-qemu");
const FAKE: &str = env!("CARGO_BIN_EXE_fake-qemu");

/// A folder with images in it, to run in.
pub struct Stage {
    pub folder: PathBuf,
    variables: Vec<(String, String)>,
}

pub struct Outcome {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Stage {
    pub fn new() -> Stage {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "spindle-runner-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        for arch in ["x86_64", "aarch64"] {
            let images = folder.join("images").join(arch);
            std::fs::create_dir_all(&images).unwrap();
            for image in ["spindle", "tests", "fixtures", "bench", "blink"] {
                std::fs::write(images.join(image), "").unwrap();
            }
            for elf in ["fixtures.elf", "blink.elf"] {
                std::fs::copy(FAKE, images.join(elf)).unwrap();
            }
        }
        Stage {
            folder,
            variables: Vec::new(),
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Stage {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(RUNNER);
        command
            .args(line.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
            .env("SPINDLE_QEMU_X86_64", FAKE)
            .env("SPINDLE_QEMU_AARCH64", FAKE);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, line: &str) -> Outcome {
        let output = self.command(line).output().unwrap();
        Outcome {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn start(&self, line: &str) -> Child {
        self.command(line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.join(path)).unwrap_or_default()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Outcome {
    #[track_caller]
    pub fn says(&self, text: &str) -> &Outcome {
        assert!(
            self.out.contains(text) || self.err.contains(text),
            "no `{text}` in:\n{}\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    pub fn ends(&self, status: i32, last_line: &str) -> &Outcome {
        assert_eq!(
            (self.status, self.out.lines().last()),
            (Some(status), Some(last_line)),
            "{}\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    pub fn fails_in_one_line(&self, text: &str) -> &Outcome {
        assert_eq!(
            (self.status, self.err.lines().count()),
            (Some(2), 1),
            "{}\n{}",
            self.out,
            self.err
        );
        self.says(text)
    }
}
