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
    /// Whether that comes by edges.
    pub is_edge: bool,
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
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
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
    let is = |name: &str| {
        root.compatible()
            .into_iter()
            .flatten()
            .any(|entry| entry == name)
    };
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
    let hvc = root.child("psci").and_then(|psci| {
        psci.property("method")
            .map(|method| method.value() == b"hvc\0")
    });
    let Some(list) = root.child("cpus") else {
        return;
    };
    for core in list
        .children()
        .filter(|node| node.name_without_address() == "cpu")
    {
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

/// A GIC has no lines from here on.
const LINES: u32 = 1020;

/// Calls `visit` for each device that is compatible with `name`.
pub fn for_each_compatible(bytes: &[u8], name: &str, visit: &mut dyn FnMut(Device)) {
    if let Ok(tree) = Fdt::new(bytes) {
        for_each_device(tree.root(), &mut |node| {
            if node.is_compatible(name) {
                visit(device(node));
            }
        });
    }
}

fn device(node: FdtNode<'_>) -> Device {
    let mut ranges = registers(node);
    let registers = ranges.next().unwrap_or_default();
    let more_registers = ranges.next().unwrap_or_default();
    // Three cells: 0 for a shared interrupt, its number from 32 on, flags.
    let (line, flags) = node
        .property("interrupts")
        .and_then(|property| {
            let mut cells = property.as_prop_encoded_array([1, 1, 1]).ok()?;
            let [kind, number, flags] = cells.next()?;
            let number = number.to_int::<u32>().ok()?;
            let line = number.checked_add(32).filter(|line| *line < LINES)?;
            (kind.to_int::<u32>().ok()? == 0).then_some((line, flags.to_int::<u32>().ok()?))
        })
        .unwrap_or((0, 0));
    Device {
        registers,
        more_registers,
        line,
        // Rising, or falling.
        is_edge: flags & 3 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vm_fdt::FdtWriter;

    /// A tree like that of QEMU's virt board, with two cores.
    fn virt(method: &str) -> Vec<u8> {
        let mut fdt = FdtWriter::new().unwrap();
        let root = fdt.begin_node("").unwrap();
        fdt.property_u32("#address-cells", 2).unwrap();
        fdt.property_u32("#size-cells", 2).unwrap();
        fdt.property_string("compatible", "linux,dummy-virt")
            .unwrap();
        let psci = fdt.begin_node("psci").unwrap();
        fdt.property_string("method", method).unwrap();
        fdt.end_node(psci).unwrap();
        let memory = fdt.begin_node("memory@40000000").unwrap();
        fdt.property_string("device_type", "memory").unwrap();
        fdt.property_array_u64("reg", &[0x4000_0000, 0x1000_0000])
            .unwrap();
        fdt.end_node(memory).unwrap();
        let reserved = fdt.begin_node("reserved-memory").unwrap();
        fdt.property_u32("#address-cells", 2).unwrap();
        fdt.property_u32("#size-cells", 2).unwrap();
        let secret = fdt.begin_node("secret@44000000").unwrap();
        fdt.property_array_u64("reg", &[0x4400_0000, 0x1000])
            .unwrap();
        fdt.end_node(secret).unwrap();
        fdt.end_node(reserved).unwrap();
        let cpus = fdt.begin_node("cpus").unwrap();
        fdt.property_u32("#address-cells", 1).unwrap();
        fdt.property_u32("#size-cells", 0).unwrap();
        for core in 0..2u32 {
            let cpu = fdt.begin_node(&format!("cpu@{core}")).unwrap();
            fdt.property_string("enable-method", "psci").unwrap();
            fdt.property_u32("reg", core).unwrap();
            fdt.end_node(cpu).unwrap();
        }
        let map = fdt.begin_node("cpu-map").unwrap();
        fdt.end_node(map).unwrap();
        fdt.end_node(cpus).unwrap();
        let uart = fdt.begin_node("pl011@9000000").unwrap();
        fdt.property_string_list(
            "compatible",
            vec!["arm,pl011".into(), "arm,primecell".into()],
        )
        .unwrap();
        fdt.property_array_u64("reg", &[0x900_0000, 0x1000])
            .unwrap();
        fdt.property_array_u32("interrupts", &[0, 1, 4]).unwrap();
        fdt.end_node(uart).unwrap();
        for (number, line) in [(0, 16), (1, u32::MAX)] {
            let at = 0xa00_0000 + 0x200 * number;
            let virtio = fdt.begin_node(&format!("virtio_mmio@{at:x}")).unwrap();
            fdt.property_string("compatible", "virtio,mmio").unwrap();
            fdt.property_array_u64("reg", &[at, 0x200]).unwrap();
            fdt.property_array_u32("interrupts", &[0, line, 1]).unwrap();
            fdt.end_node(virtio).unwrap();
        }
        let gic = fdt.begin_node("intc@8000000").unwrap();
        fdt.property_string("compatible", "arm,gic-v3").unwrap();
        fdt.property_array_u64("reg", &[0x800_0000, 0x1_0000, 0x80a_0000, 0xf6_0000])
            .unwrap();
        fdt.end_node(gic).unwrap();
        let chosen = fdt.begin_node("chosen").unwrap();
        fdt.property_string("bootargs", "log=debug cores=2")
            .unwrap();
        fdt.end_node(chosen).unwrap();
        fdt.end_node(root).unwrap();
        fdt.finish().unwrap()
    }

    /// A tree like a Pi's: 32-bit cells, a spin table, devices under `soc`.
    fn raspi() -> Vec<u8> {
        let mut fdt = FdtWriter::new().unwrap();
        let root = fdt.begin_node("").unwrap();
        fdt.property_u32("#address-cells", 1).unwrap();
        fdt.property_u32("#size-cells", 1).unwrap();
        fdt.property_string_list(
            "compatible",
            vec!["raspberrypi,3-model-b".into(), "brcm,bcm2837".into()],
        )
        .unwrap();
        let memory = fdt.begin_node("memory@0").unwrap();
        fdt.property_string("device_type", "memory").unwrap();
        fdt.property_array_u32("reg", &[0, 0x3b40_0000]).unwrap();
        fdt.end_node(memory).unwrap();
        let cpus = fdt.begin_node("cpus").unwrap();
        for core in 0..4u32 {
            let cpu = fdt.begin_node(&format!("cpu@{core}")).unwrap();
            fdt.property_string("enable-method", "spin-table").unwrap();
            fdt.property_u32("reg", core).unwrap();
            fdt.property_u64("cpu-release-addr", 0xd8 + 8 * u64::from(core))
                .unwrap();
            fdt.end_node(cpu).unwrap();
        }
        fdt.end_node(cpus).unwrap();
        fdt.end_node(root).unwrap();
        fdt.finish().unwrap()
    }

    fn parse(bytes: &[u8]) -> Option<(Tree, MemoryMap, CoreList)> {
        let (mut memory, mut cores) = (MemoryMap::new(), CoreList::new());
        let tree = read(bytes, &mut memory, &mut cores)?;
        Some((tree, memory, cores))
    }

    #[test]
    fn the_virt_board_is_understood() {
        let bytes = virt("smc");
        assert_eq!(length(bytes[..8].try_into().unwrap()), Some(bytes.len()));
        let (tree, memory, cores) = parse(&bytes).unwrap();
        assert_eq!(tree.board, Some(Board::Virt));
        assert_eq!(tree.command_line.as_str(), "log=debug cores=2");
        assert_eq!(tree.start, Some(Start::PsciSmc));
        assert_eq!(parse(&virt("hvc")).unwrap().0.start, Some(Start::PsciHvc));
        assert_eq!(cores.ids(), [0, 1]);
        assert_eq!(memory.usable_bytes(), 0x1000_0000 - 0x1000);
        let uart = tree.uart.unwrap();
        assert_eq!((uart.registers.0, uart.line), (0x900_0000, 33));
        assert_eq!(tree.gic_v3.unwrap().more_registers, (0x80a_0000, 0xf6_0000));
        assert!(tree.gic_v2.is_none());
        assert!(!uart.is_edge);
    }

    #[test]
    fn devices_are_found_by_what_they_are_compatible_with() {
        let mut found = Vec::new();
        let bytes = virt("hvc");
        for_each_compatible(&bytes, "virtio,mmio", &mut |device| found.push(device));
        let places: Vec<_> = found.iter().map(|device| device.registers).collect();
        assert_eq!(places, [(0xa00_0000, 0x200), (0xa00_0200, 0x200)]);
        // One whose interrupt no GIC has is without.
        assert_eq!((found[0].line, found[0].is_edge), (48, true));
        assert_eq!(found[1].line, 0);
        for_each_compatible(b"no tree", "virtio,mmio", &mut |_| panic!("nothing"));
    }

    #[test]
    fn a_pi_is_understood() {
        let (tree, memory, cores) = parse(&raspi()).unwrap();
        assert_eq!(tree.board, Some(Board::Raspi3));
        assert_eq!(tree.start, Some(Start::SpinTable));
        assert_eq!(tree.release[..5], [0xd8, 0xe0, 0xe8, 0xf0, 0]);
        assert_eq!(cores.ids(), [0, 1, 2, 3]);
        assert_eq!(memory.usable_bytes(), 0x3b40_0000);
        assert_eq!(tree.command_line.as_str(), "");
    }

    #[test]
    fn what_is_no_device_tree_is_refused() {
        assert_eq!(length(b"MZ\0\0\0\0\0\0"), None);
        assert!(parse(b"not a tree").is_none());
        assert!(parse(&virt("hvc")[..100]).is_none());
    }

    proptest! {
        /// Firmware may be wrong anywhere: a damaged tree may be misread, but never brings the boot down.
        #[test]
        fn a_damaged_tree_does_no_harm(at in 0usize..1200, byte: u8, second in 0usize..1200, other: u8) {
            let mut bytes = virt("hvc");
            for (at, byte) in [(at, byte), (second, other)] {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            parse(&bytes);
        }
    }
}
