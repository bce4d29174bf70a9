//! Volumes and the container store, through the suites that any implementation must pass.

use std::sync::Arc;

use onefold_block::conformance::{container_store, device};
use onefold_block::{BlockDevice, ByteSize, ContainerStore, FolderContainerStore, SimFolder};
use onefold_pool::{Pool, PoolSettings, Volume};

use crate::support::{new_pool, options, read_only, small};

#[test]
fn a_volume_is_a_block_device() {
    device::check_device(&|size| {
        let (_, pool) = new_pool(&small());
        let volume: Volume = pool.create_volume("main", ByteSize(size)).unwrap();
        Arc::new(volume)
    });
}

#[test]
fn a_volume_with_large_chunks_is_a_block_device() {
    device::check_device(&|size| {
        let chunk_size = "64K".parse().unwrap();
        let (_, pool) = new_pool(&PoolSettings { chunk_size, ..small() });
        Arc::new(pool.create_volume("main", ByteSize(size)).unwrap())
    });
}

#[test]
fn a_volume_of_a_pool_opened_read_only_is_a_read_only_device() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 9000], true).unwrap();
    drop(volume);
    pool.close().unwrap();
    let before = folder.op_count();
    let pool = Pool::open(&folder, &read_only()).unwrap();
    device::check_read_only_device(&pool.volume("main").unwrap());
    pool.close().unwrap();
    assert_eq!(folder.op_count(), before, "nothing was changed");
    Pool::open(&folder, &options()).unwrap();
}

#[test]
fn the_folder_store_is_a_container_store() {
    container_store::check_container_store(&|| {
        let store: Arc<dyn ContainerStore> =
            Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
        store
    });
}
