// Merge path (Green, McColl and Bader 2012): where a diagonal cuts the merge of two sequences, found by binary search.
#pragma once
#include "tenon.cuh"

/// Items of A among the first `diagonal` of the merge of A and B; `b_first(b, a)` says whether an item of B comes
/// before one of A.
template <class Index, class A, class B, class Before>
TENON_DEVICE Index merge_path(Index diagonal, Index items_a, Index items_b, A a, B b, Before b_first) {
    Index low = diagonal > items_b ? diagonal - items_b : 0, high = min_of(diagonal, items_a);
    while (low < high) {
        Index middle = low + (high - low) / 2;
        if (b_first(b(diagonal - 1 - middle), a(middle))) high = middle;
        else low = middle + 1;
    }
    return low;
}

/// Items and segment ends as one sequence, an end behind the items of its segment: how many segments end within the
/// first `steps` of it. `end(s)` is the end of segment `s` in items (Merrill and Garland 2016).
template <class N, class End>
TENON_DEVICE N segments_within(N steps, N segments, N items, End end) {
    N low = steps > items ? steps - items : 0, high = min_of(steps, segments);
    while (low < high) {
        N middle = low + (high - low) / 2;
        if (end(middle) <= steps - middle - 1) low = middle + 1;
        else high = middle;
    }
    return low;
}
