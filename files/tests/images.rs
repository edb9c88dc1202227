//! Volumes that others made are read, and what is written is read by others: mkfs.fat, fsck.fat and mtools.

mod common;

use common::{ALL, FAT12, FAT16, FAT32, Image, Make, Random, block_on, mount, with_partitions};
use embedded_io_async::{Read, Seek, SeekFrom, Write};
use files::{Error, Kind, OpenOptions, RamDisk, Volume};
use std::sync::Arc;

const LONG: &str =
    "A name that is much longer than eight and three letters, with Ümläuts and 名前.text";

/// As much as fits well.
fn big(make: &Make) -> Vec<u8> {
    Random::new(7).bytes(make.kib * 1024 / 3 + 77)
}

/// Fills an image by mtools.
fn filled(make: &Make) -> Image {
    let image = make.image_with(&["-n", "SPINDLE"]);
    image.put("/README.TXT", b"short");
    image.put("/small.txt", b"small letters");
    image.put(&format!("/{LONG}"), b"long");
    image.mtools(
        "mmd",
        &["::/one", "::/one/Two or three", "::/one/Two or three/FOUR"],
    );
    image.put("/one/Two or three/FOUR/deep.bin", &big(make));
    image.put("/empty", b"");
    for number in 0..100 {
        image.mtools("mmd", &[&format!("::/one/directory number {number}")]);
    }
    image
}

async fn check_filled(volume: &Volume, make: &Make) {
    let mut root: Vec<_> = volume.list("/").await.unwrap();
    root.sort();
    let names: Vec<&str> = root.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [LONG, "README.TXT", "empty", "one", "small.txt"]);
    assert_eq!(root.iter().filter(|entry| entry.is_directory).count(), 1);
    assert_eq!(volume.list("one").await.unwrap().len(), 101);
    assert_eq!(volume.read("readme.txt").await.unwrap(), b"short");
    assert_eq!(volume.read(LONG).await.unwrap(), b"long");
    assert_eq!(volume.read(&LONG.to_uppercase()).await.unwrap(), b"long");
    assert_eq!(volume.read("empty").await.unwrap(), b"");
    let deep = "/one/two OR three/./FOUR/../four/deep.bin";
    assert_eq!(
        volume.entry(deep).await.unwrap().size as usize,
        big(make).len()
    );
    assert!(volume.read(deep).await.unwrap() == big(make));
    assert_eq!(volume.read("one/nothing").await, Err(Error::NotFound));
    assert_eq!(volume.read("empty/nothing").await, Err(Error::NotDirectory));
    assert_eq!(volume.read("one").await, Err(Error::IsDirectory));
    assert_eq!(volume.read("").await, Err(Error::IsDirectory));
    assert_eq!(volume.list("empty").await, Err(Error::NotDirectory));
    assert!(matches!(volume.read("a?b").await, Err(Error::Name(_))));
}

#[test]
fn what_mtools_wrote_is_read_with_and_without_a_partition_table() {
    for (make, kind) in ALL.iter().zip([Kind::Fat12, Kind::Fat16, Kind::Fat32]) {
        let image = filled(make);
        block_on(async {
            let (_, volume) = mount(&image).await;
            assert_eq!(volume.info().await.unwrap().kind, kind);
            check_filled(&volume, make).await;
            let partitioned = with_partitions(&image.bytes(), 0x0c);
            let volume = Volume::mount(Arc::new(RamDisk::from_bytes(partitioned)))
                .await
                .unwrap();
            check_filled(&volume, make).await;
        });
    }
}

#[test]
fn what_is_written_is_read_by_mtools_and_sound_to_fsck() {
    for make in ALL {
        let image = filled(&make);
        let volume_bytes = image.bytes();
        for is_partitioned in [false, true] {
            let bytes = match is_partitioned {
                true => with_partitions(&volume_bytes, 0x06),
                false => volume_bytes.clone(),
            };
            let mut bytes = block_on(async {
                let disk = Arc::new(RamDisk::from_bytes(bytes));
                let volume = Volume::mount(disk.clone()).await.unwrap();
                write_much(&volume, &make).await;
                volume.unmount().await.unwrap();
                assert_eq!(volume.list("/").await, Err(Error::Unmounted));
                disk.bytes().await
            });
            if is_partitioned {
                bytes.drain(..2048 * 512);
            }
            check_written(&Image::of(&bytes), &make);
        }
    }
}

async fn write_much(volume: &Volume, make: &Make) {
    volume.write("NEW.TXT", b"new").await.unwrap();
    volume
        .write("new small.txt", b"with a blank")
        .await
        .unwrap();
    volume
        .write(LONG, b"another, and longer than before")
        .await
        .unwrap();
    volume.write("README.TXT", &vec![b'x'; 5000]).await.unwrap();
    volume
        .remove("one/two or three/four/deep.bin")
        .await
        .unwrap();
    volume.create_dir("one/made here").await.unwrap();
    assert_eq!(volume.create_dir("one/MADE here").await, Err(Error::Exists));
    // More than the first cluster of a directory has room for, with aliases that would be the same.
    for number in 0..60 {
        let name = format!("one/made here/a rather long name of a file, number {number}");
        volume.write(&name, name.as_bytes()).await.unwrap();
    }
    for number in (0..60).step_by(2) {
        volume
            .remove(&format!(
                "one/made here/a rather long name of a file, number {number}"
            ))
            .await
            .unwrap();
    }
    volume
        .rename("small.txt", "one/Moved and renamed")
        .await
        .unwrap();
    volume.rename("one/two or three", "Two").await.unwrap();
    assert_eq!(
        volume.rename("Two", "two/four/five").await,
        Err(Error::IntoItself)
    );
    assert_eq!(volume.rename("Two", "one").await, Err(Error::Exists));
    volume.rename("Two", "TWO").await.unwrap();
    assert_eq!(volume.remove("one").await, Err(Error::NotEmpty));
    assert_eq!(volume.remove("").await, Err(Error::NotEmpty));
    volume.remove("two/FOUR").await.unwrap();
    // By the traits of embedded-io-async, from the middle, beyond the end, and cut off.
    let mut file = volume.create("big.bin").await.unwrap();
    Write::write_all(&mut file, &big(make)).await.unwrap();
    Seek::seek(&mut file, SeekFrom::Start(1000)).await.unwrap();
    Write::write_all(&mut file, &[1; 3000]).await.unwrap();
    Write::flush(&mut file).await.unwrap();
    let mut back = vec![0; 4000];
    Seek::seek(&mut file, SeekFrom::Start(500)).await.unwrap();
    Read::read_exact(&mut file, &mut back).await.unwrap();
    assert!(
        back[..500] == big(make)[500..1000]
            && back[500..3500] == [1; 3000]
            && back[3500..] == big(make)[4000..4500]
    );
    assert_eq!(
        file.seek(SeekFrom::Current(-5000)).await,
        Err(Error::BeforeStart)
    );
    file.set_size(10_000).await.unwrap();
    file.seek(SeekFrom::End(2000)).await.unwrap();
    file.write_all(b"the end").await.unwrap();
    file.close().await.unwrap();
    let options = OpenOptions::new().append(true);
    let mut file = options.open(volume, "new.txt").await.unwrap();
    file.write_all(b" and more").await.unwrap();
    drop(file);
    assert_eq!(
        options.open(volume, "nothing").await.err(),
        Some(Error::NotFound)
    );
    let new = OpenOptions::new().write(true).create_new(true);
    assert_eq!(new.open(volume, "new.txt").await.err(), Some(Error::Exists));
}

fn check_written(image: &Image, make: &Make) {
    image.assert_sound();
    assert_eq!(image.get("/NEW.TXT"), b"new and more");
    assert_eq!(image.get("/new small.txt"), b"with a blank");
    assert_eq!(
        image.get(&format!("/{LONG}")),
        b"another, and longer than before"
    );
    assert_eq!(image.get("/readme.txt"), vec![b'x'; 5000]);
    assert_eq!(image.get("/one/Moved and renamed"), b"small letters");
    let mut expected = big(make);
    expected[1000..4000].fill(1);
    expected.truncate(10_000);
    expected.resize(12_000, 0);
    expected.extend(b"the end");
    assert!(image.get("/big.bin") == expected);
    for number in (1..60).step_by(2) {
        let name = format!("one/made here/a rather long name of a file, number {number}");
        assert_eq!(image.get(&format!("/{name}")), name.as_bytes());
    }
    let listed = String::from_utf8(image.mtools("mdir", &["-b", "::/one/made here"])).unwrap();
    assert_eq!(listed.lines().count(), 30, "{listed}");
    let listed = String::from_utf8(image.mtools("mdir", &["-b", "::/"])).unwrap();
    assert!(
        listed.contains("TWO") && listed.contains("new small.txt"),
        "{listed}"
    );
}

#[test]
fn sectors_of_four_kibibytes_are_read_and_written() {
    let make = Make {
        kib: 64 << 10,
        ..FAT16
    };
    let image = make.image_with(&["-S", "4096"]);
    let bytes = block_on(async {
        let (disk, volume) = mount(&image).await;
        volume.create_dir("a").await.unwrap();
        for number in 0..300 {
            volume
                .write(
                    &format!("a/file number {number}"),
                    &vec![number as u8; number * 50],
                )
                .await
                .unwrap();
        }
        volume.unmount().await.unwrap();
        disk.bytes().await
    });
    let image = Image::of(&bytes);
    image.assert_sound();
    block_on(async {
        let (_, volume) = mount(&image).await;
        for number in 0..300 {
            let bytes = volume
                .read(&format!("a/file number {number}"))
                .await
                .unwrap();
            assert!(bytes == vec![number as u8; number * 50]);
        }
    });
}

#[test]
fn a_full_volume_says_so_and_has_room_again_when_something_is_removed() {
    for make in ALL {
        let image = make.image();
        let bytes = block_on(async {
            let (disk, volume) = mount(&image).await;
            let piece = vec![7; make.kib * 1024 / 10];
            let mut count = 0;
            let full = loop {
                if let Err(error) = volume.write(&format!("file {count}"), &piece).await {
                    break error;
                }
                count += 1;
            };
            assert_eq!((full, count), (Error::NoSpace, 9));
            for number in 0..count {
                assert!(volume.read(&format!("file {number}")).await.unwrap() == piece);
            }
            // Freed, and used again before anything was flushed.
            volume.remove("file 3").await.unwrap();
            volume.remove("file 9").await.unwrap();
            volume.write("another", &piece).await.unwrap();
            volume.unmount().await.unwrap();
            disk.bytes().await
        });
        Image::of(&bytes).assert_sound();
    }
}

#[test]
fn a_file_stays_when_there_is_no_room_for_what_is_to_replace_it() {
    for make in ALL {
        let image = make.image();
        block_on(async {
            let (disk, volume) = mount(&image).await;
            volume.write("small", &[1; 20_000]).await.unwrap();
            volume.write("large", &[2; 100_000]).await.unwrap();
            let mut rest = volume.create("rest").await.unwrap();
            while rest.write_all(&[3; 4096]).await.is_ok() {}
            while rest.write_all(&[3; 1]).await.is_ok() {}
            rest.close().await.unwrap();
            for (path, length) in [("small", 60_000), ("small", 200_000), ("large", 200_000)] {
                let full = volume.write(path, &vec![4; length]).await;
                assert_eq!(full, Err(Error::NoSpace));
            }
            assert_eq!(volume.read("small").await.unwrap(), [1; 20_000]);
            assert_eq!(volume.read("large").await.unwrap(), [2; 100_000]);
            // What fits if the old one is given up is written.
            volume.write("small", &[5; 20_000]).await.unwrap();
            volume.write("large", &[6; 100_000]).await.unwrap();
            assert_eq!(volume.read("small").await.unwrap(), [5; 20_000]);
            assert_eq!(volume.read("large").await.unwrap(), [6; 100_000]);
            volume.unmount().await.unwrap();
            Image::of(&disk.bytes().await).assert_sound();
        });
    }
}

#[test]
fn a_root_of_fixed_size_fills_up() {
    let image = FAT12.image();
    block_on(async {
        let (_, volume) = mount(&image).await;
        let mut count = 0;
        let full = loop {
            match volume.create(&format!("F{count}")).await {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full, Error::DirectoryFull);
        assert_eq!(volume.list("").await.unwrap().len(), count);
        assert!(count >= 112, "{count}");
    });
}

#[test]
fn one_writes_a_file_and_who_else_wants_to_is_refused() {
    let image = FAT32.image();
    block_on(async {
        let (_, volume) = mount(&image).await;
        let mut writer = volume.create("file").await.unwrap();
        writer.write_all(b"some").await.unwrap();
        assert_eq!(volume.create("file").await.err(), Some(Error::Busy));
        let append = OpenOptions::new().append(true);
        assert_eq!(append.open(&volume, "FILE").await.err(), Some(Error::Busy));
        assert_eq!(volume.remove("file").await, Err(Error::Busy));
        assert_eq!(volume.rename("file", "other").await, Err(Error::Busy));
        // Who reads may, and sees what was written.
        let mut reader = volume.open("file").await.unwrap();
        let mut room = [0; 100];
        assert_eq!(reader.read(&mut room).await.unwrap(), 4);
        writer.write_all(&[b'x'; 5000]).await.unwrap();
        assert_eq!(
            (reader.read(&mut room).await.unwrap(), reader.size()),
            (100, 5004)
        );
        assert_eq!(reader.write(b"no").await, Err(Error::NotOpenForThat));
        writer.set_size(0).await.unwrap();
        assert_eq!(reader.read(&mut room).await.unwrap(), 0);
        drop(writer);
        drop(append.open(&volume, "file").await.unwrap());
        drop(reader);
        volume.remove("file").await.unwrap();
        assert_eq!(volume.open("file").await.err(), Some(Error::NotFound));
    });
}

#[test]
fn a_disk_without_a_volume_says_why() {
    block_on(async {
        for (bytes, why) in [
            (vec![0; 512 * 100], "signature"),
            (vec![], "empty"),
            (with_partitions(&[0; 51200], 0x0b), "boot sector"),
        ] {
            let error = Volume::mount(Arc::new(RamDisk::from_bytes(bytes)))
                .await
                .unwrap_err();
            let said = error.to_string();
            assert!(
                matches!(error, Error::NoVolume(_))
                    && said.contains(why)
                    && said.contains("mkfs.fat"),
                "{said}"
            );
        }
    });
}

#[test]
fn bytes_of_a_disk_are_read_and_written_at_any_place() {
    let disk = RamDisk::new(64);
    let mut model = vec![0; 64 * 512];
    let mut random = Random::new(3);
    block_on(async {
        for _ in 0..500 {
            let at = random.below(model.len());
            let length = random.below(model.len() - at).min(3000);
            let bytes = random.bytes(length);
            model[at..at + length].copy_from_slice(&bytes);
            files::bytes::write_at(&disk, at as u64, &bytes)
                .await
                .unwrap();
            let at = random.below(model.len());
            let mut back = vec![0; random.below(model.len() - at)];
            files::bytes::read_at(&disk, at as u64, &mut back)
                .await
                .unwrap();
            assert!(back == model[at..at + back.len()]);
        }
        files::bytes::flush(&disk).await.unwrap();
        assert!(
            files::bytes::read_at(&disk, 64 * 512 - 3, &mut [0; 4])
                .await
                .is_err()
        );
        assert!(
            files::bytes::write_at(&disk, u64::MAX, &[0; 4])
                .await
                .is_err()
        );
    });
}
