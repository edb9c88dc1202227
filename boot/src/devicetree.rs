//! What a device tree says about the machine.

use crate::{
    CoreList, Text,
    memory::{Kind, MemoryMap},
};
use dtoolkit::{
    Node, Property, ToCellInt,
    fdt::{Fdt, FdtNode},
    standard::NodeStandard,
};
use hal::{board::Board, cores::MAX_CORES};

/// How the other cores are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// PSCI, by `hvc`.
    PsciHvc,
    /// PSCI, by `smc`.
    PsciSmc,
    /// Each waits for an address to appear at its own place.
    SpinTable,
}

/// Where a device is and which interrupt it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Device {
    /// First range of registers: address and length.
    pub registers: (u64, u64),
    /// Second range.
    pub more_registers: (u64, u64),
    /// Number of its first interrupt at a GIC; 0: none.
    pub line: u32,
}

/// What was found.
pub struct Tree {
    /// The board, if it is one of ours.
    pub board: Option<Board>,
    /// The kernel's command line.
    pub command_line: Text,
    /// How the other cores are started.
    pub start: Option<Start>,
    /// For a spin table: where each core looks; 0: nowhere.
    pub release: [u64; MAX_CORES],
    /// GICv2.
    pub gic_v2: Option<Device>,
    /// GICv3.
    pub gic_v3: Option<Device>,
    /// PL011.
    pub uart: Option<Device>,
}

/// Length of the device tree at `bytes`, if one is there.
pub fn length(header: &[u8; 8]) -> Option<usize> {
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (word(0) == 0xd00d_feed).then(|| word(4) as usize)
}

/// Reads the tree; memory and cores are added to the lists. `None`: it is damaged.
pub fn read(bytes: &[u8], memory: &mut MemoryMap, cores: &mut CoreList) -> Option<Tree> {
    let tree = Fdt::new(bytes).ok()?;
    let root = tree.root();
    let mut found = Tree {
        board: board(root),
        command_line: Text::new([]),
        start: None,
        release: [0; MAX_CORES],
        gic_v2: None,
        gic_v3: None,
        uart: None,
    };
    if let Some(chosen) = root.child("chosen")
        && let Some(line) = chosen.property("bootargs")
    {
        found.command_line = Text::new(line.value().iter().copied());
    }
    for node in root.children().filter(|node| is_memory(*node)) {
        for (start, length) in registers(node) {
            memory.add_usable(start, length);
        }
    }
    for reserved in tree.memory_reservations() {
        memory.reserve(reserved.address(), reserved.size(), Kind::Firmware);
    }
    if let Some(reserved) = root.child("reserved-memory") {
        for (start, length) in reserved.children().flat_map(registers) {
            memory.reserve(start, length, Kind::Firmware);
        }
    }
    read_cores(root, cores, &mut found);
    for_each_device(root, &mut |node| {
        let is = |name| node.is_compatible(name);
        if is("arm,gic-v3") {
            found.gic_v3.get_or_insert(device(node));
        } else if is("arm,cortex-a15-gic") || is("arm,gic-400") {
            found.gic_v2.get_or_insert(device(node));
        } else if is("arm,pl011") {
            found.uart.get_or_insert(device(node));
        }
    });
    Some(found)
}

fn board(root: FdtNode<'_>) -> Option<Board> {
    let is = |name: &str| root.compatible().into_iter().flatten().any(|entry| entry == name);
    if is("linux,dummy-virt") {
        Some(Board::Virt)
    } else if is("brcm,bcm2837") {
        Some(Board::Raspi3)
    } else if is("brcm,bcm2711") {
        Some(Board::Raspi4)
    } else {
        None
    }
}

fn is_memory(node: FdtNode<'_>) -> bool {
    node.property("device_type")
        .is_some_and(|property| property.value() == b"memory\0")
}

/// Ranges of `reg`; a malformed one gives none.
fn registers(node: FdtNode<'_>) -> impl Iterator<Item = (u64, u64)> {
    node.reg()
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .filter_map(|range| Some((range.address().ok()?, range.size().ok()?)))
}

fn read_cores(root: FdtNode<'_>, cores: &mut CoreList, found: &mut Tree) {
    let hvc = root
        .child("psci")
        .and_then(|psci| psci.property("method").map(|method| method.value() == b"hvc\0"));
    let Some(list) = root.child("cpus") else {
        return;
    };
    for core in list.children().filter(|node| node.name_without_address() == "cpu") {
        let Some(id) = core.property("reg").and_then(|reg| integer(reg.value())) else {
            continue;
        };
        cores.add(id);
        let index = cores.ids().iter().position(|&known| known == id);
        let method = core.property("enable-method");
        match method.as_ref().map(|method| method.value()) {
            Some(b"spin-table\0") => {
                found.start = Some(Start::SpinTable);
                let address = core.property("cpu-release-addr");
                let address = address.and_then(|property| integer(property.value()));
                if let Some(index) = index {
                    found.release[index] = address.unwrap_or(0);
                }
            }
            Some(b"psci\0") => {
                found.start = hvc.map(|hvc| if hvc { Start::PsciHvc } else { Start::PsciSmc });
            }
            _ => {}
        }
    }
}

/// A number of one or two cells.
fn integer(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => Some(u64::from(u32::from_be_bytes(value.try_into().ok()?))),
        8 => Some(u64::from_be_bytes(value.try_into().ok()?)),
        _ => None,
    }
}

/// Visits the devices at the top and one level down, where boards have theirs.
fn for_each_device(root: FdtNode<'_>, visit: &mut dyn FnMut(FdtNode<'_>)) {
    for node in root.children() {
        visit(node);
        if node.name_without_address() == "soc" {
            node.children().for_each(&mut *visit);
        }
    }
}

fn device(node: FdtNode<'_>) -> Device {
    let mut ranges = registers(node);
    let registers = ranges.next().unwrap_or_default();
    let more_registers = ranges.next().unwrap_or_default();
    // Three cells: 0 for a shared interrupt, its number from 32 on, flags.
    let line = node
        .property("interrupts")
        .and_then(|property| {
            let mut cells = property.as_prop_encoded_array([1, 1, 1]).ok()?;
            let [kind, number, _] = cells.next()?;
            let number = number.to_int::<u32>().ok()?;
            (kind.to_int::<u32>().ok()? == 0).then_some(number + 32)
        })
        .unwrap_or(0);
    Device {
        registers,
        more_registers,
        line,
    }
}
