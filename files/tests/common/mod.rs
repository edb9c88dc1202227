//! Images of volumes, made and looked at by the tools that everyone has: mkfs.fat, fsck.fat and mtools.

#![allow(dead_code, reason = "each test uses a part of it")]

use executor::Runtime;
use files::{Error, RamDisk, Volume};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A file that is gone when this is dropped.
pub struct Image(pub PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn fresh() -> Image {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "spindle-files-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Relaxed)
    );
    Image(std::env::temp_dir().join(name))
}

fn run(command: &mut Command) -> Output {
    // mtools refuses what is not as it would make it, and asks questions, unless told.
    command
        .env("MTOOLS_SKIP_CHECK", "1")
        .env("MTOOLS_NO_VFAT", "0")
        .env("LC_ALL", "C.UTF-8");
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}; `tools/setup fat` installs it"),
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// What a volume is made like.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    pub bits: u32,
    pub kib: usize,
    pub sectors_per_cluster: u32,
}

pub const FAT12: Make = Make {
    bits: 12,
    kib: 1440,
    sectors_per_cluster: 1,
};
pub const FAT16: Make = Make {
    bits: 16,
    kib: 10 << 10,
    sectors_per_cluster: 2,
};
pub const FAT32: Make = Make {
    bits: 32,
    kib: 36 << 10,
    sectors_per_cluster: 1,
};
pub const ALL: [Make; 3] = [FAT12, FAT16, FAT32];

impl Make {
    /// Made by mkfs.fat.
    pub fn image(&self) -> Image {
        self.image_with(&[])
    }

    pub fn image_with(&self, options: &[&str]) -> Image {
        let image = fresh();
        let file = fs::File::create(&image.0).unwrap();
        file.set_len((self.kib as u64) << 10).unwrap();
        let mut command = Command::new("mkfs.fat");
        command.args([
            "-F",
            &self.bits.to_string(),
            "-s",
            &self.sectors_per_cluster.to_string(),
            "-i",
            "5417d1e5",
        ]);
        if self.bits < 32 {
            command.args(["-r", "512"]);
        }
        let output = run(command.args(options).arg(&image.0));
        assert!(output.status.success(), "{}", text(&output));
        image
    }
}

impl Image {
    pub fn of(bytes: &[u8]) -> Self {
        let image = fresh();
        fs::write(&image.0, bytes).unwrap();
        image
    }

    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap()
    }

    /// One of mtools, told that this is drive `i:`. What it said.
    pub fn mtools(&self, name: &str, arguments: &[&str]) -> Vec<u8> {
        let output = run(Command::new(name).arg("-i").arg(&self.0).args(arguments));
        assert!(
            output.status.success(),
            "{name} {arguments:?}: {}",
            text(&output)
        );
        output.stdout
    }

    /// Puts a file on it.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let file = fresh();
        fs::write(&file.0, bytes).unwrap();
        self.mtools(
            "mcopy",
            &["-o", file.0.to_str().unwrap(), &format!("::{path}")],
        );
    }

    /// What mtools reads of a file.
    pub fn get(&self, path: &str) -> Vec<u8> {
        self.mtools("mtype", &[&format!("::{path}")])
    }

    /// What fsck.fat has to complain about; none: nothing.
    pub fn complaints(&self) -> Option<String> {
        let output = run(Command::new("fsck.fat").arg("-n").arg("-v").arg(&self.0));
        (!output.status.success()).then(|| text(&output))
    }

    pub fn assert_sound(&self) {
        if let Some(complaints) = self.complaints() {
            panic!("fsck.fat: {complaints}");
        }
    }

    /// Lets fsck.fat repair it.
    pub fn repair(&self) -> String {
        let output = run(Command::new("fsck.fat").arg("-a").arg(&self.0));
        // 1: it found something, and has repaired it.
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            text(&output)
        );
        text(&output)
    }

    pub fn disk(&self) -> Arc<RamDisk> {
        Arc::new(RamDisk::from_bytes(self.bytes()))
    }
}

/// The same with a partition table before it, as card readers make them.
pub fn with_partitions(volume: &[u8], kind: u8) -> Vec<u8> {
    const BEFORE: usize = 2048;
    let mut bytes = vec![0; BEFORE * 512];
    let entry = &mut bytes[446 + 16..446 + 32];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&(BEFORE as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&((volume.len() / 512) as u32).to_le_bytes());
    // Before it, one that is not FAT.
    bytes[446 + 4] = 0x83;
    bytes[446 + 8..446 + 12].copy_from_slice(&64u32.to_le_bytes());
    bytes[446 + 12..446 + 16].copy_from_slice(&64u32.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes.extend_from_slice(volume);
    bytes
}

/// Runs this on two workers.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let result = runtime.block_on(future);
    runtime.shutdown();
    result
}

pub async fn mount(image: &Image) -> (Arc<RamDisk>, Volume) {
    let disk = image.disk();
    let volume = Volume::mount(disk.clone()).await.unwrap();
    (disk, volume)
}

/// Numbers in no order, the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// An error that says that something is wrong with us, and not with the volume.
pub fn is_our_fault(error: Error) -> bool {
    matches!(error, Error::Failed)
}
