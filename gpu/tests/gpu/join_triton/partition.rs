//! The partitioners over the bus: each tuple once, in its partition.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_gpu::join::triton::partition::{
    PartitionInput, Partitioner, Places, PrefixSum, Tuples, partition, partition_of, prefix_sum,
};
use tenon_gpu::testing;

#[test]
fn partitioners_of_host_and_device_memory() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_partitioners"));
    let device = testing::device_with_budget(256 << 20);
    let stream = device.stream().unwrap();
    for (items, fan_out, few_keys) in [
        (0, 2, false),
        (1, 4, false),
        (3000, 2, false),
        (9001, 64, true),
        (20_000, 2048, false),
    ] {
        let mut keys = device.pinned::<u64>(items).unwrap();
        let mut values = device.pinned::<u64>(items).unwrap();
        keys.iter_mut()
            .for_each(|key| *key = if few_keys { rng.random_range(0..3) } else { rng.random() });
        values.iter_mut().for_each(|value| *value = rng.random());
        let mut expected: Vec<Vec<(u64, u64)>> = vec![Vec::new(); fan_out as usize];
        for (&key, &value) in keys.iter().zip(values.iter()) {
            expected[partition_of(key, fan_out) as usize].push((key, value));
        }
        expected.iter_mut().for_each(|tuples| tuples.sort_unstable());
        let (device_keys, device_values) = (stream.upload(&keys).unwrap(), stream.upload(&values).unwrap());
        let host = PartitionInput::Host(&keys, &values);
        let places = prefix_sum(&stream, host, fan_out, PrefixSum::Cpu).unwrap();
        assert_eq!(places, prefix_sum(&stream, host, fan_out, PrefixSum::Gpu).unwrap());
        let room = 2 * Places::room(items, fan_out);
        for algorithm in Partitioner::ALL {
            for (to_host, from_host) in [(true, true), (false, false)] {
                let source = match from_host {
                    true => host,
                    false => PartitionInput::Device(device_keys.view(), device_values.view()),
                };
                let mut on_host = device.pinned::<u64>(room).unwrap();
                let mut on_device = stream.alloc::<u64>(room).unwrap();
                let mut target = match to_host {
                    true => Tuples::Host(&mut on_host),
                    false => Tuples::Device(on_device.view_mut()),
                };
                partition(&stream, algorithm, source, fan_out, &places, &mut target).unwrap();
                let words = if to_host {
                    on_host.to_vec()
                } else {
                    stream.download(on_device.view()).unwrap()
                };
                for (i, expected) in expected.iter().enumerate() {
                    let from = 2 * places.starts[i] as usize;
                    let tuples = words[from..from + 2 * places.counts[i] as usize].chunks_exact(2);
                    let mut found: Vec<_> = tuples.map(|tuple| (tuple[0], tuple[1])).collect();
                    found.sort_unstable();
                    assert!(
                        found == *expected,
                        "{algorithm:?}: partition {i} of {fan_out}, {items} tuples"
                    );
                }
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn fan_outs_that_make_no_sense_are_errors() {
    let device = testing::device_with_budget(1 << 20);
    let stream = device.stream().unwrap();
    let column = device.pinned::<u64>(10).unwrap();
    for fan_out in [0, 1, 3, 4096] {
        assert!(prefix_sum(&stream, PartitionInput::Host(&column, &column), fan_out, PrefixSum::Cpu).is_err());
    }
}
