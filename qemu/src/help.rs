//! What `--help` says, and which options each command takes.

/// A command as its user sees it.
pub struct Help {
    pub name: &'static str,
    pub usage: &'static str,
    /// How many files it takes.
    pub files: usize,
    /// The options it takes; `--` stands for arguments that are passed on to QEMU.
    pub options: &'static [&'static str],
    about: &'static str,
}

pub const COMMANDS: [Help; 7] = [
    Help {
        name: "check",
        usage: "check --board B [--cores N] [--args-only] [--port P]",
        files: 0,
        options: &["board", "cores", "gic", "el2", "args-only", "port"],
        about: "\
Says in one line why the board cannot run here, and what would work; exit status 2.
  --board B      pc, virt, raspi3b or raspi4b
  --cores N      pc 1 to 64, virt 1 to 64 (1 to 8 with gic 2), raspi3b and raspi4b 1 to 4
  --args-only    look at the arguments only, not at QEMU
  --port P       a TCP port of this host that must be free
",
    },
    Help {
        name: "pack",
        usage: "pack ELF OUT",
        files: 2,
        options: &[],
        about: "\
Makes a bootable image of a linked kernel: embeds its symbol table, and turns an aarch64 kernel
into the flat file that QEMU and the Pi load. Keeps the ELF for debuggers as OUT.elf.
",
    },
    Help {
        name: "run",
        usage: "run --board B [--cores N] [--gic 2|3] [--el2] [--append S] [--limit S] [--script FILE] [--disk FILE] [--legacy] [--port P] --images DIR [-- QEMU-ARGS]",
        files: 0,
        options: &[
            "board", "cores", "gic", "el2", "append", "limit", "script", "disk", "legacy", "port", "images", "--",
        ],
        about: "\
Boots DIR/<arch>/spindle. With a terminal on stdin its serial line is yours (Ctrl-A X quits).
With none it runs the tour, passes on what it prints and exits as the guest does: 0 well, 1 failed,
2 panicked; 124 when it took too long, 125 when it ended without a code.
  --gic 2|3      virt's interrupt controller (3)
  --el2          virt boots at EL2
  --append S     more for the kernel's command line
  --limit S      seconds for a run without a terminal (300)
  --disk FILE    a disk, which keeps what is written to it: an SD card on a Pi (its size a power of two), else
                 of virtio (without: zeros, for this boot only)
  --legacy       their virtio devices are of the first kind
  --script FILE  plays a console script (lines `expect TEXT`, `send TEXT`, `fail TEXT`,
                 `limit S`, `exit N`) instead of the tour
  --port P       with a terminal: the port of this host that leads to the guest's HTTP server (8080,
                 or another that is free)
",
    },
    Help {
        name: "test",
        usage: "test [--board B] [--cores N] [--filter F] [--long] [--no-host] [--host-only] [--junit FILE] --images DIR",
        files: 0,
        options: &[
            "board",
            "cores",
            "filter",
            "long",
            "no-host",
            "host-only",
            "junit",
            "images",
        ],
        about: "\
Runs the host's tests, then DIR/<arch>/tests on every variant of every board, the framework's own
tests with DIR/<arch>/fixtures, what an idle machine costs, and 5 seeds of `torture`. Ends in `N passed, N failed`;
exit status 1 if anything failed or nothing was run.
  --board B      this board only
  --cores N      this many cores instead of each variant's own
  --filter F     only tests with F in their names; on the host, if a crate or a file in tests/ is
                 called F, those in there
  --long         also: many boots on a loaded host, GRUB, the debugger
  --no-host, --host-only
                 leave out, or run only, the tests that need no board
  --junit FILE   where the results go (target/junit.xml)
",
    },
    Help {
        name: "torture",
        usage: "torture [--board B] [--cores N] [--seeds N] [--seed S] [--filter F] [--wall] [--limit S] --images DIR",
        files: 0,
        options: &[
            "board", "cores", "seeds", "seed", "filter", "wall", "limit", "images",
        ],
        about: "\
Runs the executor's tests of DIR/<arch>/tests, preempted at random moments that a seed chooses,
with time counted in instructions: the same seed is the same run. On pc and virt unless told.
  --seeds N      seeds 1 to N (20)
  --seed S       this seed only
  --filter F     only tests with F in their names, whatever they test
  --wall         by the wall clock, each core a thread of the host: real races, never the same twice
  --limit S      the most seconds that a test may take, whatever it asks for
",
    },
    Help {
        name: "bench",
        usage: "bench --board B [--cores N] [--filter F] [--limit S] --images DIR",
        files: 0,
        options: &["board", "cores", "gic", "el2", "filter", "limit", "images"],
        about: "\
Boots DIR/<arch>/bench twice with time counted in instructions, insists that both runs measured
the same, prints a table and writes target/bench/<board>.json.
  --filter F     only benchmarks with F in their names
  --limit S      seconds for each of the two runs (900)
",
    },
    Help {
        name: "gdb",
        usage: "gdb --board B [--cores N] [--gic 2|3] [--el2] [--append S] --images DIR",
        files: 0,
        options: &["board", "cores", "gic", "el2", "append", "images"],
        about: "\
Boots DIR/<arch>/spindle under gdb, stopped at kernel_main. `cores` shows what every core is doing,
`con` what the guest printed. With no terminal: stops once all cores are up, shows them and quits.
",
    },
];

/// The help of one command.
pub fn of(command: &str) -> Option<&'static Help> {
    COMMANDS.iter().find(|help| help.name == command)
}

impl Help {
    pub fn text(&self) -> String {
        format!("usage: spindle-qemu {}\n\n{}", self.usage, self.about)
    }
}

/// The commands in one line.
pub fn names() -> String {
    COMMANDS.map(|help| help.name).join(", ")
}

/// The help of everything.
pub fn all() -> String {
    let mut text = String::from("Runs Spindle images on QEMU's boards.\n");
    for help in &COMMANDS {
        text += &format!("\nspindle-qemu {}\n", help.usage);
        for line in help.about.lines() {
            text += &format!("  {line}\n");
        }
    }
    text += "
Environment:
  SPINDLE_QEMU_X86_64, SPINDLE_QEMU_AARCH64
                 programs to run instead of qemu-system-x86_64 and qemu-system-aarch64
Exit status: 0 well, 1 something failed, 2 wrong use or a missing part (one line says which).
";
    text
}
