//! Functions of DataFusion's that PostgreSQL does not know: no statement may call them.

/// Whether a name is one of theirs.
pub(crate) fn is_foreign(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

#[rustfmt::skip]
static NAMES: &[&str] = &[
    "any_match", "array_add", "array_any_match", "array_any_value", "array_avg", "array_compact", "array_concat",
    "array_distance", "array_distinct", "array_element", "array_empty", "array_except", "array_extract",
    "array_filter", "array_first", "array_has_all", "array_has_any", "array_indexof", "array_intersect",
    "array_join", "array_max", "array_min", "array_normalize", "array_pop_back", "array_pop_front", "array_product",
    "array_push_back", "array_push_front", "array_remove_all", "array_remove_n", "array_repeat",
    "array_replace_all", "array_replace_n", "array_resize", "array_reverse", "array_scale", "array_slice",
    "array_sort", "array_subtract", "array_sum", "array_transform", "array_union", "arrays_overlap", "arrays_zip",
    "arrow_cast", "arrow_field", "arrow_metadata", "arrow_try_cast", "arrow_typeof", "cast_to_type", "contains",
    "cosine_distance", "date_format", "datepart", "datetrunc", "digest", "dot_product", "element_at", "empty",
    "ends_with", "file_row_index", "find_in_set", "flatten", "from_unixtime", "ifnull", "inner_product",
    "input_file_name", "instr", "isnan", "iszero", "levenshtein", "list_add", "list_any_match", "list_any_value",
    "list_append", "list_avg", "list_cat", "list_compact", "list_concat", "list_contains", "list_dims",
    "list_distance", "list_distinct", "list_element", "list_empty", "list_except", "list_extract", "list_filter",
    "list_first", "list_has", "list_has_all", "list_has_any", "list_indexof", "list_intersect", "list_join",
    "list_length", "list_max", "list_ndims", "list_normalize", "list_pop_back", "list_pop_front", "list_position",
    "list_positions", "list_prepend", "list_product", "list_push_back", "list_push_front", "list_remove",
    "list_remove_all", "list_remove_n", "list_repeat", "list_replace", "list_replace_all", "list_replace_n",
    "list_resize", "list_reverse", "list_scale", "list_slice", "list_sort", "list_subtract", "list_sum",
    "list_to_string", "list_transform", "list_union", "list_zip", "make_array", "make_list", "map", "map_entries",
    "map_extract", "map_keys", "map_values", "named_struct", "nanvl", "nvl", "nvl2", "rand", "string_to_list",
    "substr_index", "substring_index", "to_local_time", "to_time", "to_timestamp_micros", "to_timestamp_millis",
    "to_timestamp_nanos", "to_timestamp_seconds", "to_unixtime", "try_cast_to_type", "union_extract", "union_tag",
    "with_metadata",
];
