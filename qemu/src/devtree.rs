//! A small device tree for the Pis. QEMU gives them none of its own, and only a device tree
//! carries the kernel command line: QEMU copies `-append` into `/chosen/bootargs` of this one.

use crate::board::Board;
use crate::problem::{Problem, Result};
use vm_fdt::{FdtReserveEntry, FdtWriter};

/// Core n of a Pi waits for its start address at this physical address plus 8 n.
const SPIN_TABLE: u64 = 0xd8;

/// The tree of a Pi with `cores` cores. Those beyond the fourth are ghosts: their release
/// addresses follow the table's, and nobody watches them.
pub fn pi(board: Board, cores: u32) -> Result<Vec<u8>> {
    write(board, cores)
        .map_err(|error| Problem::new(format!("device tree of {}: {error}", board.name())))
}

fn write(board: Board, cores: u32) -> std::result::Result<Vec<u8>, vm_fdt::Error> {
    let (model, compatible, cpu, memory) = match board {
        Board::Raspi4b => (
            "Raspberry Pi 4 Model B",
            ["raspberrypi,4-model-b", "brcm,bcm2711"],
            "arm,cortex-a72",
            // What is below the GPU's share; QEMU writes the true size over it.
            0x3b40_0000,
        ),
        _ => (
            "Raspberry Pi 3 Model B",
            ["raspberrypi,3-model-b", "brcm,bcm2837"],
            "arm,cortex-a53",
            0x3b40_0000,
        ),
    };
    // As in the Pi's own trees: the first page holds the code in which cores wait.
    let reserved = FdtReserveEntry::new(0, 0x1000)?;
    let mut tree = FdtWriter::new_with_mem_reserv(&[reserved])?;
    let root = tree.begin_node("")?;
    tree.property_string_list("compatible", compatible.map(String::from).to_vec())?;
    tree.property_string("model", model)?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;

    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", "")?;
    tree.end_node(chosen)?;

    let ram = tree.begin_node("memory@0")?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[0, memory])?;
    tree.end_node(ram)?;

    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    for core in 0..cores {
        let node = tree.begin_node(&format!("cpu@{core}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_string("compatible", cpu)?;
        tree.property_u32("reg", core)?;
        tree.property_string("enable-method", "spin-table")?;
        tree.property_u64("cpu-release-addr", SPIN_TABLE + 8 * u64::from(core))?;
        tree.end_node(node)?;
    }
    tree.end_node(cpus)?;
    tree.end_node(root)?;
    tree.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(tree: &[u8], part: &[u8]) -> bool {
        tree.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn a_pi_says_where_each_core_waits() {
        let tree = pi(Board::Raspi3b, 4).unwrap();
        assert_eq!(tree[..4], 0xd00d_feed_u32.to_be_bytes());
        for address in [0xd8u64, 0xe0, 0xe8, 0xf0] {
            assert!(contains(&tree, &address.to_be_bytes()), "{address:#x}");
        }
        assert!(!contains(&tree, &0xf8u64.to_be_bytes()));
        assert!(contains(&tree, b"brcm,bcm2837\0"));
    }

    #[test]
    fn a_fifth_core_is_a_ghost_that_nobody_watches() {
        let tree = pi(Board::Raspi3b, 5).unwrap();
        assert!(contains(&tree, b"cpu@4\0") && contains(&tree, &0xf8u64.to_be_bytes()));
    }

    #[test]
    fn a_pi_4_says_that_it_is_one() {
        assert!(contains(&pi(Board::Raspi4b, 4).unwrap(), b"brcm,bcm2711\0"));
    }
}
