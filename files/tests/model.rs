//! Files against a model: whatever is done, in whatever order, a volume has in it what a map of names would.

mod common;

use common::{FAT12, FAT16, FAT32, Image, Make, Random, block_on};
use embedded_io_async::SeekFrom;
use files::{Error, OpenOptions, RamDisk, Volume};
use std::{collections::BTreeMap, sync::Arc};

/// What is there, by path. None: a directory.
type Model = BTreeMap<String, Option<Vec<u8>>>;

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_directory(model: &Model, path: &str) -> bool {
    path.is_empty() || matches!(model.get(path), Some(None))
}

/// A path that may be there, or not, below what may be a directory.
fn path(model: &Model, random: &mut Random) -> String {
    let directories: Vec<&String> = model
        .iter()
        .filter(|(_, what)| what.is_none())
        .map(|(path, _)| path)
        .collect();
    let name = match random.below(3) {
        0 => format!("FILE{}", random.below(8)),
        1 => format!("a long name, number {}.text", random.below(8)),
        _ => format!("Größe {} 名", random.below(4)),
    };
    match directories.is_empty() || random.below(3) == 0 {
        true => name,
        false => format!("{}/{name}", directories[random.below(directories.len())]),
    }
}

async fn step(volume: &Volume, model: &mut Model, random: &mut Random) {
    let path = path(model, random);
    let what = model.get(&path).cloned();
    let has_parent = is_directory(model, parent(&path));
    match random.below(12) {
        0..3 => {
            let length = [0, 10, 700, 5000][random.below(4)];
            let bytes = random.bytes(length);
            let written = volume.write(&path, &bytes).await;
            match what {
                Some(None) => assert_eq!(written, Err(Error::IsDirectory)),
                _ if !has_parent => assert!(written.is_err()),
                _ => {
                    written.unwrap();
                    model.insert(path, Some(bytes));
                }
            }
        }
        3..6 => {
            // In the middle, at the end, beyond it.
            let options = OpenOptions::new().write(true).read(true);
            let file = options.open(volume, &path).await;
            let Some(Some(mut expected)) = what else {
                assert!(file.is_err());
                return;
            };
            let mut file = file.unwrap();
            let at = random.below(expected.len() + 3000);
            let length = 1 + random.below(2000);
            let bytes = random.bytes(length);
            file.seek(SeekFrom::Start(at as u64)).await.unwrap();
            file.write_all(&bytes).await.unwrap();
            if expected.len() < at + bytes.len() {
                expected.resize(at + bytes.len(), 0);
            }
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            if random.below(2) == 0 {
                let size = random.below(expected.len() + 2000);
                file.set_size(size as u32).await.unwrap();
                expected.resize(size, 0);
            }
            assert_eq!(file.size() as usize, expected.len());
            model.insert(path, Some(expected));
        }
        6..8 => {
            let removed = volume.remove(&path).await;
            let has_children = model.keys().any(|other| parent(other) == path);
            match what {
                None => assert_eq!(removed, Err(Error::NotFound)),
                Some(None) if has_children => assert_eq!(removed, Err(Error::NotEmpty)),
                Some(_) => {
                    removed.unwrap();
                    model.remove(&path);
                }
            }
        }
        8 => {
            let made = volume.create_dir(&path).await;
            match what {
                Some(_) => assert_eq!(made, Err(Error::Exists)),
                None => {
                    made.unwrap();
                    model.insert(path, None);
                }
            }
        }
        9..11 => {
            let to = self::path(model, random);
            let renamed = volume.rename(&path, &to).await;
            let into_itself = to.starts_with(&format!("{path}/"));
            match (what, model.contains_key(&to)) {
                (None, _) => assert_eq!(renamed, Err(Error::NotFound)),
                (Some(_), true) if path == to => renamed.unwrap(),
                (Some(_), true) => assert_eq!(renamed, Err(Error::Exists)),
                (Some(None), false) if into_itself => assert_eq!(renamed, Err(Error::IntoItself)),
                (Some(_), false) => {
                    renamed.unwrap();
                    let below =
                        |other: &str| other == path || other.starts_with(&format!("{path}/"));
                    let moved: Vec<String> =
                        model.keys().filter(|other| below(other)).cloned().collect();
                    for old in moved {
                        let what = model.remove(&old).unwrap();
                        model.insert(format!("{to}{}", &old[path.len()..]), what);
                    }
                }
            }
        }
        _ => volume.sync().await.unwrap(),
    }
}

/// All of it is as the model says, and nothing else is there.
async fn compare(volume: &Volume, model: &Model) {
    let mut directories = vec![String::new()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        for entry in volume.list(&directory).await.unwrap() {
            let path = match directory.is_empty() {
                true => entry.name.clone(),
                false => format!("{directory}/{}", entry.name),
            };
            seen += 1;
            match model.get(&path) {
                Some(None) => {
                    assert!(entry.is_directory);
                    directories.push(path);
                }
                Some(Some(bytes)) => assert!(volume.read(&path).await.unwrap() == *bytes, "{path}"),
                None => panic!("{path} should not be there"),
            }
        }
    }
    assert_eq!(seen, model.len());
}

fn against_the_model(make: Make, seeds: std::ops::Range<u64>) {
    let fresh = make.image().bytes();
    for seed in seeds {
        let mut random = Random::new(seed);
        let bytes = block_on(async {
            let disk = Arc::new(RamDisk::from_bytes(fresh.clone()));
            let mut model = Model::new();
            for _ in 0..4 {
                let volume = Volume::mount(disk.clone()).await.unwrap();
                assert!(!volume.info().await.unwrap().was_dirty);
                for _ in 0..100 {
                    step(&volume, &mut model, &mut random).await;
                }
                compare(&volume, &model).await;
                volume.unmount().await.unwrap();
            }
            let volume = Volume::mount(disk.clone()).await.unwrap();
            compare(&volume, &model).await;
            disk.bytes().await
        });
        if let Some(complaints) = Image::of(&bytes).complaints() {
            panic!("seed {seed}: {complaints}");
        }
    }
}

#[test]
fn files_on_fat12_are_as_in_the_model() {
    against_the_model(FAT12, 1..60);
}

#[test]
fn files_on_fat16_are_as_in_the_model() {
    against_the_model(FAT16, 1..30);
}

#[test]
fn files_on_fat32_are_as_in_the_model() {
    against_the_model(FAT32, 1..20);
}
