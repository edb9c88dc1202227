//! A [`Machine`] is a board as configured for one boot; it knows QEMU's arguments for it.

use crate::board::{Arch, Board, Gic};
use crate::devtree;
use crate::files;
use crate::problem::{Result, stop};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a Pi learns from its device tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tree {
    /// What is there.
    True,
    /// No tree at all, hence no command line either.
    None,
    /// One core more than there is.
    Ghost,
}

/// Of which kind the virtio devices are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Virtio {
    /// The second, that of the standard.
    Modern,
    /// The first, from before it.
    Legacy,
}

/// How emulated time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// With the wall clock; every core is a host thread.
    Wall,
    /// One nanosecond for each instruction, all cores in one thread: the same every time.
    Instructions,
}

/// Bytes of a disk that is not given.
const SCRATCH: u64 = 16 << 20;

/// Where the guest's serial line goes.
pub enum Serial<'a> {
    /// Our pipes.
    Pipe,
    /// The terminal, shared with QEMU's monitor (Ctrl-A X quits).
    Terminal,
    /// A file; the terminal belongs to somebody else.
    File(&'a Path),
}

/// One configuration of one board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    pub board: Board,
    pub cores: u32,
    pub gic: Gic,
    pub el2: bool,
    pub tree: Tree,
    pub clock: Clock,
    pub virtio: Virtio,
    /// Ports of this host that lead to ports of the guest. Port 0 of the host is one that is free; QEMU knows which.
    pub forwards: Vec<(u16, u16)>,
    /// An image of a disk, which the guest reads and writes: an SD card on a Pi, else of virtio. The size of a card is a power of two.
    /// Without, a virtio disk is of zeros, and gone after the boot; a Pi has none.
    pub disk: Option<PathBuf>,
}

impl Machine {
    pub fn new(board: Board, cores: u32) -> Machine {
        Machine {
            board,
            cores,
            gic: Gic::V3,
            el2: false,
            tree: Tree::True,
            clock: Clock::Wall,
            virtio: Virtio::Modern,
            forwards: Vec::new(),
            disk: None,
        }
    }

    /// Whether it has a network.
    pub fn has_network(&self) -> bool {
        matches!(self.board, Board::Pc | Board::Virt) && self.clock == Clock::Wall
    }

    /// Says in one line what of it cannot be.
    pub fn check(&self) -> Result<()> {
        if self.board != Board::Virt && (self.gic != Gic::V3 || self.el2) {
            stop!(
                "--gic and --el2 are choices of board virt only, not of {}",
                self.board.name()
            );
        }
        if self.board.is_pi() && self.virtio != Virtio::Modern {
            stop!("--legacy is for pc and virt: a Pi has no virtio device");
        }
        if let Some(file) = self.disk.as_ref().filter(|file| !file.is_file()) {
            stop!("there is no disk {}", file.display());
        }
        self.board.check_cores(self.cores, self.gic)
    }

    /// The name of its suite: `virt-gic3-el2-4`.
    pub fn id(&self) -> String {
        let mut id = self.board.name().to_string();
        if self.board == Board::Virt {
            id += &format!("-gic{}", self.gic.number());
        }
        if self.el2 {
            id += "-el2";
        }
        if self.virtio == Virtio::Legacy {
            id += "-legacy";
        }
        match self.tree {
            Tree::True => {}
            Tree::None => id += "-no-tree",
            Tree::Ghost => id += "-ghost",
        }
        format!("{id}-{}", self.cores)
    }

    /// What people call it: `virt, gic 3, EL2, 4 cores`.
    pub fn title(&self) -> String {
        let mut title = self.board.name().to_string();
        if self.board == Board::Virt {
            title += &format!(", gic {}", self.gic.number());
        }
        if self.el2 {
            title += ", EL2";
        }
        if self.virtio == Virtio::Legacy {
            title += ", legacy virtio";
        }
        match self.tree {
            Tree::True => {}
            Tree::None => title += ", no device tree",
            Tree::Ghost => title += ", a fifth core that is not there",
        }
        let plural = if self.cores == 1 { "" } else { "s" };
        format!("{title}, {} core{plural}", self.cores)
    }

    /// The image called `name` for it among `images`.
    pub fn image(&self, images: &Path, name: &str) -> PathBuf {
        images.join(self.board.arch().name()).join(name)
    }

    /// The kernel command line with `words` added. The guest exits the way QEMU understands.
    pub fn command_line(&self, words: &str) -> String {
        let mut line = String::from("exit=qemu");
        if self.board.is_pi() && self.cores < 4 {
            line += &format!(" cores={}", self.cores);
        }
        if !words.trim().is_empty() {
            line += " ";
            line += words.trim();
        }
        line
    }

    /// QEMU's arguments to boot `image` with `words` on its command line.
    /// Writes the Pi's device tree below `target/`.
    pub fn arguments(
        &self,
        image: &Path,
        words: &str,
        serial: &Serial<'_>,
    ) -> Result<Vec<OsString>> {
        let mut arguments = Arguments(self.hardware(serial));
        self.add_devices(&mut arguments)?;
        arguments.pair("-kernel", image);
        if self.tree != Tree::None {
            arguments.pair("-append", self.command_line(words));
        }
        if self.board.is_pi() && self.tree != Tree::None {
            let (suffix, cores) = if self.tree == Tree::Ghost {
                ("-ghost", 5)
            } else {
                ("", 4)
            };
            let file = PathBuf::from(format!("target/qemu/{}{suffix}.dtb", self.board.name()));
            files::write(&file, &devtree::pi(self.board, cores)?)?;
            arguments.pair("-dtb", file);
        }
        Ok(arguments.0)
    }

    /// The devices that are not part of the board: a network, which is QEMU's own, and a disk. Where time is counted in instructions there are none:
    /// what comes from outside comes when it likes.
    fn add_devices(&self, arguments: &mut Arguments) -> Result<()> {
        if let (true, Some(card)) = (self.board.is_pi(), &self.disk) {
            let card = commas(card);
            arguments.pair("-drive", format!("if=sd,id=disk0,format=raw,file={card}"));
        }
        let (kind, options) = match (self.board, self.virtio) {
            (Board::Pc, Virtio::Modern) => ("pci", ",disable-legacy=on"),
            (Board::Pc, Virtio::Legacy) => ("pci", ",disable-modern=on"),
            (Board::Virt, _) => ("device", ""),
            (Board::Raspi3b | Board::Raspi4b, _) => return Ok(()),
        };
        if self.clock == Clock::Instructions {
            return Ok(());
        }
        if self.board == Board::Virt {
            let is_legacy = self.virtio == Virtio::Legacy;
            let global = format!("virtio-mmio.force-legacy={is_legacy}");
            arguments.pair("-global", global);
        }
        let mut network = String::from("user,id=net0");
        for (host, guest) in &self.forwards {
            network += &format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}");
        }
        arguments.pair("-netdev", network);
        let device = format!("virtio-net-{kind},netdev=net0{options}");
        arguments.pair("-device", device);
        let (file, keeping) = match &self.disk {
            Some(file) => (file.clone(), ""),
            // What is written goes to a file of QEMU's own, which has no name.
            None => (
                files::zeros("target/qemu/zeros.img", SCRATCH)?,
                ",snapshot=on",
            ),
        };
        let file = commas(&file);
        let drive = format!("if=none,id=disk0,format=raw,file={file}{keeping}");
        arguments.pair("-drive", drive);
        let device = format!("virtio-blk-{kind},drive=disk0{options}");
        arguments.pair("-device", device);
        Ok(())
    }

    /// The board itself, without what it boots.
    pub fn hardware(&self, serial: &Serial<'_>) -> Vec<OsString> {
        let mut arguments = Arguments(Vec::new());
        let options = match (self.board, self.el2) {
            (Board::Virt, false) => format!(",gic-version={}", self.gic.number()),
            (Board::Virt, true) => format!(",gic-version={},virtualization=on", self.gic.number()),
            _ => String::new(),
        };
        arguments.pair("-machine", format!("{}{options}", self.board.machine()));
        match self.board {
            // The two interrupt controllers come with the two CPUs one meets them with.
            Board::Virt if self.gic == Gic::V2 => arguments.pair("-cpu", "cortex-a72"),
            Board::Pc | Board::Virt => arguments.pair("-cpu", "max"),
            Board::Raspi3b | Board::Raspi4b => {}
        }
        if self.board.is_pi() {
            arguments.pair("-smp", "4");
        } else {
            arguments.pair("-smp", self.cores.to_string());
            arguments.pair("-m", "256");
        }
        match self.clock {
            Clock::Wall => arguments.pair("-accel", "tcg,thread=multi"),
            Clock::Instructions => {
                arguments.pair("-accel", "tcg,thread=single");
                arguments.pair("-icount", "shift=0,sleep=off");
                arguments.pair("-rtc", "base=2000-01-01,clock=vm");
            }
        }
        arguments.pair("-display", "none");
        arguments.0.push("-nodefaults".into());
        // A person may restart the machine; for a program, that is how it ends.
        if !matches!(serial, Serial::Terminal) {
            arguments.0.push("-no-reboot".into());
        }
        match serial {
            Serial::Pipe => {
                arguments.pair("-chardev", "stdio,id=console,signal=off");
                arguments.pair("-serial", "chardev:console");
            }
            Serial::Terminal => {
                arguments.pair("-chardev", "stdio,id=console,mux=on,signal=off");
                arguments.pair("-serial", "chardev:console");
                arguments.pair("-mon", "chardev=console,mode=readline");
            }
            Serial::File(path) => arguments.pair("-serial", format!("file:{}", path.display())),
        }
        match self.board.arch() {
            Arch::X86_64 => arguments.pair("-device", "isa-debug-exit,iobase=0xf4,iosize=4"),
            Arch::Aarch64 => arguments.pair("-semihosting-config", "enable=on,target=native"),
        }
        arguments.0
    }
}

/// The name of a file as QEMU's options have it: they are separated by commas, and one in a name is written twice.
fn commas(file: &Path) -> String {
    file.display().to_string().replace(',', ",,")
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn pair(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.push(name.into());
        self.0.push(value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware(machine: &Machine) -> String {
        let words = machine.hardware(&Serial::Pipe);
        words
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_pc_exits_through_its_debug_port() {
        let line = hardware(&Machine::new(Board::Pc, 8));
        assert!(
            line.contains("-machine q35 -cpu max -smp 8 -m 256"),
            "{line}"
        );
        assert!(
            line.contains("isa-debug-exit,iobase=0xf4,iosize=4"),
            "{line}"
        );
        assert!(!line.contains("semihosting"), "{line}");
    }

    #[test]
    fn virt_has_the_interrupt_controller_and_level_it_is_asked_for() {
        let machine = Machine {
            gic: Gic::V2,
            el2: true,
            ..Machine::new(Board::Virt, 4)
        };
        let line = hardware(&machine);
        assert!(
            line.contains("-machine virt,gic-version=2,virtualization=on -cpu cortex-a72"),
            "{line}"
        );
        assert_eq!(machine.id(), "virt-gic2-el2-4");
        assert!(machine.check().is_ok());
        assert!(
            Machine {
                board: Board::Pc,
                ..machine
            }
            .check()
            .is_err()
        );
    }

    #[test]
    fn a_machine_has_a_network_and_a_disk_of_the_kind_it_is_asked_for() {
        let arguments = |machine: &Machine| {
            let words = machine.arguments(Path::new("image"), "", &Serial::Pipe);
            let words = words
                .unwrap()
                .into_iter()
                .map(|word| word.into_string().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        let legacy = |board| Machine {
            virtio: Virtio::Legacy,
            ..Machine::new(board, 4)
        };
        let line = arguments(&legacy(Board::Pc));
        assert!(
            line.contains("virtio-net-pci,netdev=net0,disable-modern=on"),
            "{line}"
        );
        let line = arguments(&Machine::new(Board::Virt, 4));
        assert!(
            line.contains("-global virtio-mmio.force-legacy=false"),
            "{line}"
        );
        assert_eq!(legacy(Board::Virt).id(), "virt-gic3-legacy-4");
        assert!(line.contains("zeros.img,snapshot=on"), "{line}");
        let given = Machine {
            disk: Some("a,b.img".into()),
            ..Machine::new(Board::Pc, 4)
        };
        let line = arguments(&given);
        assert!(
            line.contains("format=raw,file=a,,b.img -device virtio-blk-pci"),
            "{line}"
        );
        let counted = Machine {
            clock: Clock::Instructions,
            ..Machine::new(Board::Pc, 1)
        };
        assert!(!arguments(&counted).contains("net0"));
    }

    #[test]
    fn a_pi_always_has_four_cores_and_is_told_to_use_fewer() {
        let machine = Machine::new(Board::Raspi3b, 1);
        assert!(hardware(&machine).contains("-smp 4"));
        assert_eq!(machine.command_line("test=x"), "exit=qemu cores=1 test=x");
        assert_eq!(
            Machine::new(Board::Raspi3b, 4).command_line(" "),
            "exit=qemu"
        );
    }

    #[test]
    fn a_disk_is_a_card_on_a_pi() {
        let machine = Machine {
            disk: Some(PathBuf::from("a,b.img")),
            ..Machine::new(Board::Raspi3b, 4)
        };
        let words = machine.arguments(Path::new("image"), "", &Serial::Pipe);
        let card = OsString::from("if=sd,id=disk0,format=raw,file=a,,b.img");
        assert!(words.unwrap().contains(&card));
    }

    #[test]
    fn time_is_counted_in_instructions_when_measuring() {
        let machine = Machine {
            clock: Clock::Instructions,
            ..Machine::new(Board::Pc, 1)
        };
        let line = hardware(&machine);
        assert!(
            line.contains("-accel tcg,thread=single -icount shift=0,sleep=off"),
            "{line}"
        );
    }
}
