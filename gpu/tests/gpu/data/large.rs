//! More than 2^31 items: on a GPU with room for them only.

use tenon_gpu::DeviceKind;
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::fill::{fill, iota};
use tenon_gpu::primitives::gather::{gather, scatter};
use tenon_gpu::primitives::histogram::histogram_digit;
use tenon_gpu::primitives::reduce::reduce;
use tenon_gpu::primitives::scan::exclusive_scan;
use tenon_gpu::primitives::search::lower_bound;
use tenon_gpu::primitives::segmented::segmented_reduce;
use tenon_gpu::primitives::select::{run_length_encode, select_indexes};
use tenon_gpu::testing;

const ITEMS: u64 = (1 << 31) + 4099;
const BUDGET_BYTES: u64 = 48 << 30;

#[test]
fn more_items_than_31_bits_count() {
    if testing::device_kind() != DeviceKind::Cuda {
        println!("NOT RUN: more than 2^31 items need a GPU (TENON_DEVICE=cuda)");
        return;
    }
    let device = testing::device_with_budget(BUDGET_BYTES);
    if device.memory_info().unwrap().0 < BUDGET_BYTES {
        println!("NOT RUN: fewer than {BUDGET_BYTES} bytes of device memory are free");
        return;
    }
    {
        let stream = &device.stream().unwrap();
        let mut ones = stream.alloc::<u32>(ITEMS).unwrap();
        fill(stream, ones.view_mut(), 1).unwrap();
        assert_eq!(reduce::<u32, u64>(stream, ones.view(), Reduction::Sum).unwrap(), ITEMS);

        let mut offsets = stream.alloc::<u64>(ITEMS + 1).unwrap();
        exclusive_scan(stream, ones.view(), offsets.view_mut(), Reduction::Sum).unwrap();
        let tail = stream.download(offsets.slice(ITEMS - 3..).unwrap()).unwrap();
        assert_eq!(tail, [ITEMS - 3, ITEMS - 2, ITEMS - 1, ITEMS]);

        let places = stream.upload(&[ITEMS - 1, 0, 1 << 31, ITEMS, u64::MAX]).unwrap();
        let mut found = stream.alloc::<u64>(5).unwrap();
        let source = offsets.slice(1..).unwrap();
        gather(stream, source, places.view(), found.view_mut()).unwrap();
        assert_eq!(stream.download(found.view()).unwrap(), [ITEMS, 1, (1 << 31) + 1, 0, 0]);

        let ends = stream.upload(&[0u64, 1, ITEMS - 2, ITEMS]).unwrap();
        let mut sums = stream.alloc::<u64>(3).unwrap();
        segmented_reduce(stream, ones.view(), ends.view(), sums.view_mut(), Reduction::Sum).unwrap();
        assert_eq!(stream.download(sums.view()).unwrap(), [1, ITEMS - 3, 2]);

        let mut counts = stream.alloc::<u64>(256).unwrap();
        histogram_digit(stream, ones.view(), 0, counts.view_mut()).unwrap();
        assert_eq!(stream.download(counts.view()).unwrap()[..3], [0, ITEMS, 0]);

        scatter(
            stream,
            found.view().slice(..1).unwrap(),
            places.slice(..1).unwrap(),
            offsets.view_mut(),
        )
        .unwrap();
        assert_eq!(
            stream.download(offsets.slice(ITEMS - 1..).unwrap()).unwrap(),
            [ITEMS, ITEMS]
        );
        drop(offsets);

        // A run that changes late.
        fill(stream, ones.slice_mut(ITEMS - 2..).unwrap(), 7).unwrap();
        let (mut values, mut runs) = (stream.alloc::<u32>(4).unwrap(), stream.alloc::<u64>(4).unwrap());
        let mut count = stream.alloc::<u64>(1).unwrap();
        run_length_encode(
            stream,
            ones.view(),
            values.view_mut(),
            runs.view_mut(),
            count.view_mut(),
        )
        .unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [2]);
        assert_eq!(stream.download(values.slice(..2).unwrap()).unwrap(), [1, 7]);
        assert_eq!(
            stream.download(runs.slice(..3).unwrap()).unwrap(),
            [0, ITEMS - 2, ITEMS]
        );

        iota(stream, ones.view_mut(), 0u32).unwrap();
        let probes = stream.upload(&[ITEMS as u32 - 1, 5, u32::MAX]).unwrap();
        let mut bounds = stream.alloc::<u64>(3).unwrap();
        lower_bound(stream, ones.view(), probes.view(), bounds.view_mut()).unwrap();
        assert_eq!(stream.download(bounds.view()).unwrap(), [ITEMS - 1, 5, ITEMS]);
        drop(ones);

        let mut flags = stream.alloc_zeroed::<u8>(ITEMS).unwrap();
        fill(stream, flags.slice_mut(ITEMS - 2..).unwrap(), 1).unwrap();
        select_indexes(stream, flags.view(), runs.view_mut(), count.view_mut()).unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [2]);
        assert_eq!(
            stream.download(runs.slice(..2).unwrap()).unwrap(),
            [ITEMS - 2, ITEMS - 1]
        );
    }
    assert_eq!(device.pool().in_use(), 0);
}
