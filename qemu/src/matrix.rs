//! Which machines the tests run on.

use crate::board::{Board, Gic};
use crate::machine::{Machine, Tree, Virtio};

/// How much is asked of a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Each value of each setting once.
    Usual,
    /// Each with each other.
    All,
}

/// The variants of a board, most usual first.
pub fn variants(board: Board, extent: Extent) -> Vec<Machine> {
    let plain = |cores| Machine::new(board, cores);
    let gic2 = Machine {
        gic: Gic::V2,
        ..plain(4)
    };
    let el2 = |machine| Machine {
        el2: true,
        ..machine
    };
    // Neither takes a boot of its own: each goes with a setting that has nothing to do with it.
    let legacy = |machine| Machine {
        virtio: Virtio::Legacy,
        ..machine
    };
    let tree = |tree| Machine { tree, ..plain(4) };
    let (usual, more) = match board {
        Board::Pc => (vec![plain(4), legacy(plain(1)), plain(8)], vec![]),
        Board::Virt => (
            vec![plain(4), legacy(el2(gic2.clone())), plain(1), plain(8)],
            vec![gic2, el2(plain(4))],
        ),
        Board::Raspi3b => (
            vec![plain(4), tree(Tree::Ghost), tree(Tree::None)],
            vec![plain(1)],
        ),
        // The same image, and the same cores.
        Board::Raspi4b => (vec![tree(Tree::Ghost), tree(Tree::None)], vec![plain(4)]),
    };
    match extent {
        Extent::Usual => usual,
        Extent::All => usual.into_iter().chain(more).collect(),
    }
}

/// The same with `cores` cores each; also those that cannot have that many.
pub fn variants_with(board: Board, cores: u32) -> (Vec<Machine>, Vec<Machine>) {
    let mut all: Vec<Machine> = Vec::new();
    for variant in variants(board, Extent::All) {
        // Without a tree or with a ghost in it, the number of cores is the point.
        let machine = if variant.tree == Tree::True {
            // Legacy devices only went with the number of cores.
            let virtio = match variant.cores == cores {
                true => variant.virtio,
                false => Virtio::Modern,
            };
            Machine {
                cores,
                virtio,
                ..variant
            }
        } else {
            variant
        };
        if machine.cores == cores && !all.contains(&machine) {
            all.push(machine);
        }
    }
    all.into_iter().partition(|machine| machine.check().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(machines: &[Machine]) -> Vec<String> {
        machines.iter().map(Machine::id).collect()
    }

    #[test]
    fn every_variant_is_possible_and_has_a_name_of_its_own() {
        for board in Board::ALL {
            let machines = variants(board, Extent::All);
            assert!(machines.iter().all(|machine| machine.check().is_ok()));
            let mut names = ids(&machines);
            names.sort();
            names.dedup();
            assert_eq!(names.len(), machines.len());
        }
    }

    #[test]
    fn asking_for_a_number_of_cores_leaves_each_kind_of_machine_once() {
        let (virt, left_out) = variants_with(Board::Virt, 2);
        assert_eq!(
            ids(&virt),
            [
                "virt-gic3-2",
                "virt-gic2-el2-2",
                "virt-gic2-2",
                "virt-gic3-el2-2"
            ]
        );
        assert!(left_out.is_empty());
        let (virt, left_out) = variants_with(Board::Virt, 16);
        assert_eq!((virt.len(), left_out.len()), (2, 2));
        assert_eq!(ids(&variants_with(Board::Raspi3b, 2).0), ["raspi3b-2"]);
        assert_eq!(variants_with(Board::Raspi3b, 4).0.len(), 3);
    }
}
