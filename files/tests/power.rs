//! Losses of power: a disk notes what is written and flushed, and is cut at every point. Of what was not flushed any part may be there, sector by
//! sector, in any order. The volume must mount, all that was flushed must be whole, and stay so when the volume is used, and repaired.

mod common;

use common::{FAT12, FAT16, FAT32, Image, Make, Random, block_on, is_our_fault};
use drivers::block::{Answer, Disk, SECTOR};
use files::{RamDisk, Volume};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// What has happened, in order.
enum Event {
    Write(u64, Vec<u8>),
    Flush,
    /// From here on a file may be one of these; none: it may be anything, or not there.
    Expect(String, Option<Vec<Option<Vec<u8>>>>),
    /// From here on one of these names is there, or both, until the next of these.
    OneOf(Vec<String>),
}

struct Recorder {
    disk: RamDisk,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    /// The file may be any of these from here on; none: it is not there.
    fn expect(&self, path: &str, any_of: &[Option<&Vec<u8>>]) {
        let any_of = any_of.iter().map(|bytes| bytes.cloned()).collect();
        self.note(Event::Expect(path.into(), Some(any_of)));
    }

    fn expect_anything(&self, path: &str) {
        self.note(Event::Expect(path.into(), None));
    }
}

impl Disk for Recorder {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> Answer<'a> {
        self.disk.read(first, into)
    }

    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> Answer<'a> {
        Box::pin(async move {
            self.disk.write(first, from).await?;
            for (number, sector) in from.chunks(SECTOR).enumerate() {
                self.note(Event::Write(first + number as u64, sector.into()));
            }
            Ok(())
        })
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async {
            self.note(Event::Flush);
            Ok(())
        })
    }
}

/// Makes files, writes them over, renames and removes them, with and without flushes.
async fn work(disk: Arc<Recorder>) {
    let volume = Volume::mount(disk.clone()).await.unwrap();
    let mut random = Random::new(5);
    let mut own: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    volume.create_dir("a directory").await.unwrap();
    volume.sync().await.unwrap();
    for round in 0..60 {
        let path = match round % 3 {
            0 => format!("F{round}"),
            1 => format!("a directory/a long name, number {round}"),
            _ => format!("a file with a name that needs some entries, {round}"),
        };
        let length = [100, 700, 3000, 9000][random.below(4)];
        let bytes = random.bytes(length);
        disk.expect_anything(&path);
        volume.write(&path, &bytes).await.unwrap();
        disk.expect(&path, &[Some(&bytes)]);
        own.insert(path, bytes);
        // One of those that are there becomes another, at once: the old one or the new one.
        let (path, old) = own.iter().nth(random.below(own.len())).unwrap();
        let (path, old) = (path.clone(), old.clone());
        let length = 1 + random.below(4000);
        let new = random.bytes(length);
        match random.below(5) {
            0 => {
                disk.expect(&path, &[Some(&old), Some(&new)]);
                volume.write(&path, &new).await.unwrap();
                disk.expect(&path, &[Some(&new)]);
                own.insert(path, new);
            }
            1 => {
                disk.expect(&path, &[Some(&old), None]);
                volume.remove(&path).await.unwrap();
                if random.below(2) == 0 {
                    volume.sync().await.unwrap();
                    disk.expect(&path, &[None]);
                }
                own.remove(&path);
            }
            2 => {
                // What is added is there when it is flushed; until then the file is as long as before, or longer.
                let mut both = old.clone();
                both.extend(&new);
                disk.expect(&path, &[Some(&old), Some(&both)]);
                let options = files::OpenOptions::new().append(true);
                let mut file = options.open(&volume, &path).await.unwrap();
                file.write_all(&new).await.unwrap();
                file.close().await.unwrap();
                disk.expect(&path, &[Some(&both)]);
                own.insert(path, both);
            }
            3 => {
                let short = old[..old.len() / 2].to_vec();
                disk.expect(&path, &[Some(&old), Some(&short)]);
                let options = files::OpenOptions::new().write(true);
                let mut file = options.open(&volume, &path).await.unwrap();
                file.set_size(short.len() as u32).await.unwrap();
                file.close().await.unwrap();
                disk.expect(&path, &[Some(&short)]);
                own.insert(path, short);
            }
            _ => {
                let to = format!("{path}, moved");
                // Under one name or the other, or both.
                disk.expect(&path, &[Some(&old), None]);
                disk.expect(&to, &[Some(&old), None]);
                disk.note(Event::OneOf(vec![path.clone(), to.clone()]));
                volume.rename(&path, &to).await.unwrap();
                volume.sync().await.unwrap();
                disk.note(Event::OneOf(Vec::new()));
                disk.expect(&path, &[None]);
                disk.expect(&to, &[Some(&old)]);
                own.remove(&path);
                own.insert(to, old);
            }
        }
    }
}

/// One of the names is there, if there are any.
async fn check_names(volume: &Volume, names: &[String], when: &str) {
    let mut is_there = names.is_empty();
    for name in names {
        is_there |= volume.entry(name).await.is_ok();
    }
    assert!(is_there, "{when}: none of {names:?} is there");
}

type Expected<'e> = BTreeMap<&'e str, Option<&'e Vec<Option<Vec<u8>>>>>;

/// All files are what they may be.
async fn check(volume: &Volume, expected: &Expected<'_>, when: &str) {
    for (path, any_of) in expected {
        let found = volume.read(path).await;
        if let Err(error) = found {
            assert!(!is_our_fault(error), "{error}");
        }
        let Some(any_of) = any_of else {
            continue;
        };
        let found = found.ok();
        assert!(
            any_of.contains(&found),
            "{when}: {path} has {:?} bytes, and may have {:?}",
            found.map(|bytes| bytes.len()),
            any_of
                .iter()
                .map(|bytes| bytes.as_ref().map(Vec::len))
                .collect::<Vec<_>>()
        );
    }
}

/// What is on the disk after a cut before this event: all that was flushed, and a part of the rest.
fn after_cut(first: &[u8], events: &[Event], random: &mut Random) -> Vec<u8> {
    let mut bytes = first.to_vec();
    let mut put = |sector: u64, data: &[u8]| {
        bytes[sector as usize * SECTOR..][..SECTOR].copy_from_slice(data)
    };
    let flushed = events
        .iter()
        .rposition(|event| matches!(event, Event::Flush))
        .unwrap_or(0);
    for event in &events[..flushed] {
        if let Event::Write(sector, data) = event {
            put(*sector, data);
        }
    }
    let rest = events[flushed..].iter().filter_map(|event| match event {
        Event::Write(sector, data) => Some((*sector, data)),
        _ => None,
    });
    let mut rest: Vec<_> = rest.collect();
    // All of them in order, or some, in another.
    match random.below(4) {
        0 => {}
        1 => rest.truncate(random.below(rest.len() + 1)),
        2 => rest.retain(|_| random.below(2) == 0),
        _ => {
            for at in (1..rest.len()).rev() {
                rest.swap(at, random.below(at + 1));
            }
            rest.truncate(random.below(rest.len() + 1));
        }
    }
    rest.iter().for_each(|(sector, data)| put(*sector, data));
    bytes
}

fn cut_everywhere(make: Make) {
    let first = make.image().bytes();
    let recorder = Arc::new(Recorder {
        disk: RamDisk::from_bytes(first.clone()),
        events: Mutex::new(Vec::new()),
    });
    block_on(work(recorder.clone()));
    let events = std::mem::take(&mut *recorder.events.lock().unwrap());
    assert!(events.len() > 500, "{}", events.len());
    let mut random = Random::new(9);
    let cuts = match std::env::var_os("SPINDLE_LONG") {
        Some(_) => 20,
        None => 1,
    };
    for end in 0..events.len() {
        let mut expected = Expected::new();
        let mut names: &[String] = &[];
        for event in &events[..end] {
            match event {
                Event::Expect(path, any_of) => drop(expected.insert(path, any_of.as_ref())),
                Event::OneOf(one_of) => names = one_of,
                _ => {}
            }
        }
        for _ in 0..cuts {
            let bytes = after_cut(&first, &events[..end], &mut random);
            let is_repaired = random.below(40) == 0;
            block_on(async {
                let disk = Arc::new(RamDisk::from_bytes(bytes.clone()));
                let volume = Volume::mount(disk).await.unwrap();
                check(&volume, &expected, &format!("cut {end}")).await;
                check_names(&volume, names, &format!("cut {end}")).await;
                // It is used further: nothing of what is there is taken for free.
                for number in 0..6 {
                    volume
                        .write(&format!("after the cut {number}"), &[number; 6000])
                        .await
                        .unwrap();
                }
                let appended = expected.iter().find(|(_, any_of)| {
                    any_of.is_some_and(|any_of| any_of.len() == 1 && any_of[0].is_some())
                });
                if let Some((path, _)) = appended {
                    let options = files::OpenOptions::new().append(true);
                    let mut file = options.open(&volume, path).await.unwrap();
                    let size = file.size();
                    file.write_all(&[1; 2000]).await.unwrap();
                    file.set_size(size).await.unwrap();
                }
                volume.sync().await.unwrap();
                check(&volume, &expected, &format!("used after cut {end}")).await;
            });
            if is_repaired {
                let image = Image::of(&bytes);
                let said = image.repair();
                block_on(async {
                    let volume = Volume::mount(image.disk()).await.unwrap();
                    // A file with two names may lose one of them.
                    if !said.contains("share clusters") {
                        check(
                            &volume,
                            &expected,
                            &format!("repaired after cut {end}: {said}"),
                        )
                        .await;
                    }
                });
            }
        }
    }
}

#[test]
fn flushed_files_on_fat12_outlast_a_loss_of_power() {
    cut_everywhere(Make { kib: 720, ..FAT12 });
}

#[test]
fn flushed_files_on_fat16_outlast_a_loss_of_power() {
    cut_everywhere(Make {
        kib: 2400,
        sectors_per_cluster: 1,
        ..FAT16
    });
}

#[test]
fn flushed_files_on_fat32_outlast_a_loss_of_power() {
    cut_everywhere(Make { kib: 1000, ..FAT32 });
}

/// The entries of the new name are in two sectors; the last, and the old name, are in the second. If only that is written, neither name is there.
#[test]
fn a_rename_to_a_name_in_two_sectors_keeps_one_of_the_names() {
    let first = FAT12.image().bytes();
    let recorder = Arc::new(Recorder {
        disk: RamDisk::from_bytes(first.clone()),
        events: Mutex::new(Vec::new()),
    });
    let names = ["F19", "a long name that needs three entries"].map(String::from);
    block_on(async {
        let volume = Volume::mount(recorder.clone()).await.unwrap();
        for number in 0..20 {
            let name = format!("F{number}");
            volume.write(&name, &[number; 100]).await.unwrap();
        }
        for number in 14..18 {
            volume.remove(&format!("F{number}")).await.unwrap();
        }
        volume.sync().await.unwrap();
        recorder.note(Event::OneOf(names.to_vec()));
        volume.rename(&names[0], &names[1]).await.unwrap();
        volume.sync().await.unwrap();
    });
    let events = std::mem::take(&mut *recorder.events.lock().unwrap());
    let is_begin = |event: &Event| matches!(event, Event::OneOf(_));
    let begin = events.iter().position(is_begin).unwrap();
    let mut random = Random::new(3);
    for end in begin..=events.len() {
        for _ in 0..20 {
            let bytes = after_cut(&first, &events[..end], &mut random);
            block_on(async {
                let disk = Arc::new(RamDisk::from_bytes(bytes));
                let volume = Volume::mount(disk).await.unwrap();
                check_names(&volume, &names, &format!("cut {end}")).await;
            });
        }
    }
}
