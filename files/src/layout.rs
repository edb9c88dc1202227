//! Where the parts of a volume are: the boot sector, and the partition table before it. Nothing in them is believed that cannot be.

use crate::error::{Error, Result};
use core::ops::Range;
use drivers::block::SECTOR;

/// The three kinds of FAT, by the width of their table's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 12 bits.
    Fat12,
    /// 16 bits.
    Fat16,
    /// 28 bits of 32.
    Fat32,
}

/// A volume, in sectors of the disk, counted from the disk's first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub kind: Kind,
    /// All of it.
    pub sectors: Range<u64>,
    /// The table that is read.
    pub table: u64,
    /// How many sectors one table has.
    pub table_sectors: u64,
    /// Where the other tables are, which are kept the same.
    pub mirrors: Range<u64>,
    /// The root directory of FAT12 and FAT16.
    pub root: Range<u64>,
    /// The first cluster of FAT32's.
    pub root_cluster: u32,
    /// The first sector of cluster 2.
    pub data: u64,
    pub cluster_sectors: u32,
    /// How many clusters there are; the first is number 2.
    pub clusters: u32,
    /// Where FAT32 notes how many are free.
    pub info: Option<u64>,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Partitions that may have FAT on them, as sectors of a disk that has so many.
pub(crate) fn partitions(first: &[u8; SECTOR], disk: u64) -> impl Iterator<Item = Range<u64>> {
    let has_table = u16_at(first, 510) == 0xaa55;
    (0..4).filter_map(move |number| {
        let entry = &first[446 + 16 * number..][..16];
        let is_fat = matches!(entry[4], 0x01 | 0x04 | 0x06 | 0x0b | 0x0c | 0x0e | 0xef);
        let start = u64::from(u32_at(entry, 8));
        let end = start + u64::from(u32_at(entry, 12));
        let is_real = has_table && is_fat && start > 0 && start < end && end <= disk;
        is_real.then_some(start..end)
    })
}

impl Layout {
    /// Reads the boot sector of a volume that has these sectors of a disk.
    pub(crate) fn parse(boot: &[u8; SECTOR], within: Range<u64>) -> Result<Self> {
        let none = |why| Err(Error::NoVolume(why));
        if u16_at(boot, 510) != 0xaa55 {
            return none("its first sector has no signature");
        }
        if !(boot[0] == 0xeb || boot[0] == 0xe9) {
            return none("its first sector is no boot sector");
        }
        let bytes = usize::from(u16_at(boot, 11));
        if !matches!(bytes, 512 | 1024 | 2048 | 4096) {
            return none("the size of a sector is wrong");
        }
        // Sectors of the disk in one of the volume's.
        let scale = (bytes / SECTOR) as u64;
        let per_cluster = boot[13];
        if !per_cluster.is_power_of_two() {
            return none("the size of a cluster is wrong");
        }
        let cluster_sectors = u32::from(per_cluster) * scale as u32;
        let reserved = u64::from(u16_at(boot, 14)) * scale;
        let tables = u64::from(boot[16]);
        if reserved == 0 || !(1..=4).contains(&tables) {
            return none("it has no table");
        }
        let root_bytes = u64::from(u16_at(boot, 17)) * 32;
        let root_sectors = root_bytes.div_ceil(bytes as u64) * scale;
        let short = u64::from(u16_at(boot, 22));
        let is_32 = short == 0;
        let table_sectors = scale
            * if is_32 {
                u64::from(u32_at(boot, 36))
            } else {
                short
            };
        let total = match u64::from(u16_at(boot, 19)) {
            0 => u64::from(u32_at(boot, 32)),
            total => total,
        } * scale;
        if total == 0 || total > within.end - within.start {
            return none("it is larger than the disk or partition that it is on");
        }
        let before = reserved + tables * table_sectors + root_sectors;
        if table_sectors == 0 || before >= total {
            return none("there is no room for files");
        }
        let clusters = (total - before) / u64::from(cluster_sectors);
        let kind = match clusters {
            0 => return none("there is no room for files"),
            1.. if is_32 => Kind::Fat32,
            1..4085 => Kind::Fat12,
            4085..65525 => Kind::Fat16,
            _ => return none("it has too many clusters for its kind"),
        };
        // The table says about so many; more than the volume has room for do not count, nor those that it does not say anything about.
        let described = table_sectors * SECTOR as u64 * 8 / kind.bits();
        let clusters = clusters
            .min(described.saturating_sub(2))
            .min(0x0fff_fff5 - 2);
        if clusters == 0 {
            return none("its table is empty");
        }
        let (root_cluster, active) = match kind {
            Kind::Fat32 => (u32_at(boot, 44) & 0x0fff_ffff, u16_at(boot, 40)),
            _ => (0, 0),
        };
        if kind == Kind::Fat32 && !(2..clusters + 2).contains(&u64::from(root_cluster)) {
            return none("its root directory is nowhere");
        }
        if kind != Kind::Fat32 && root_sectors == 0 {
            return none("it has no root directory");
        }
        // Either all tables are the same, or one alone counts.
        let (number, are_same) = match active & 0x80 {
            0 => (0, true),
            _ => (u64::from(active & 0xf), false),
        };
        if number >= tables {
            return none("the table that counts is not there");
        }
        let start = within.start;
        let table = start + reserved + number * table_sectors;
        let end_of_tables = start + reserved + tables * table_sectors;
        let info = match kind {
            Kind::Fat32 => {
                Some(u64::from(u16_at(boot, 48)) * scale).filter(|at| (1..reserved).contains(at))
            }
            _ => None,
        };
        Ok(Self {
            kind,
            sectors: start..start + total,
            table,
            table_sectors,
            mirrors: if are_same {
                table + table_sectors..end_of_tables
            } else {
                0..0
            },
            root: end_of_tables..end_of_tables + root_sectors,
            root_cluster,
            data: start + before,
            cluster_sectors,
            clusters: clusters as u32,
            info: info.map(|at| start + at),
        })
    }

    /// Whether there is such a cluster.
    pub(crate) fn has(&self, cluster: u32) -> bool {
        cluster >= 2 && cluster - 2 < self.clusters
    }

    /// The first sector of a cluster.
    pub(crate) fn sector_of(&self, cluster: u32) -> Result<u64> {
        match self.has(cluster) {
            true => Ok(self.data + u64::from(cluster - 2) * u64::from(self.cluster_sectors)),
            false => Err(Error::Broken("a cluster that is not there is in use")),
        }
    }

    pub(crate) fn cluster_bytes(&self) -> u32 {
        self.cluster_sectors * SECTOR as u32
    }

    /// Where in the boot sector it says that the volume was not unmounted.
    pub(crate) fn flag_at(&self) -> usize {
        match self.kind {
            Kind::Fat32 => 0x41,
            _ => 0x25,
        }
    }
}

impl Kind {
    fn bits(self) -> u64 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }
}
