"""The kinds of explanations that are right for each fault."""

from typing import Any

# Faults that are not listed are not simple mistakes. Determined from the code of
# the faults.
KINDS: dict[str, set[str]] = {
    "attention_scale_missing": {"SOFTMAX_SCALE", "FACTOR"},
    "attention_scale_of_the_hidden_size": {"SOFTMAX_SCALE", "FACTOR"},
    "causal_mask_forgotten": {"MASK"},
    "causal_mask_off_by_one": {"MASK"},
    "sliding_window_of_4": {"MASK"},
    "softmax_in_bfloat16": {"ROUNDED"},
    "groups_repeated_in_another_order": {"ORDER"},
    "rope_base_wrong": {"ROPE_BASE"},
    "rope_interleaved": {"ROPE_PAIRS"},
    "rope_not_applied_to_keys": {"SAME_AS_INPUT"},
    "rope_sign_wrong": {"ROPE_BASE"},
    "positions_off_by_one": {"ROPE_POSITIONS", "SHIFT", "OFFSET"},
    "positions_of_decodes_off_by_one": {"ROPE_POSITIONS", "SHIFT", "OFFSET"},
    "queries_and_keys_swapped": {"SWAPPED_INPUTS", "SAME_AS_INPUT"},
    "values_are_keys": {"SAME_AS_INPUT"},
    "heads_merged_without_transpose": {"ARRANGEMENT"},
    "heads_split_in_another_order": {"ARRANGEMENT", "ORDER"},
    "queries_keys_values_split_in_another_order": {"ARRANGEMENT", "ORDER"},
    "cache_has_an_old_value": {"STALE"},
    "residual_dropped": {"SAME_AS_INPUT", "TERM"},
    "residual_doubled": {"FACTOR"},
    "residual_scaled_by_a_little": {"TERM", "FACTOR"},
    "logits_scaled": {"FACTOR"},
    "final_norm_not_called": {"SAME_AS_INPUT"},
    "router_does_not_normalise": {"FACTOR"},
    "router_weights_exchanged": {"ORDER", "SHIFT"},
    "gate_and_up_exchanged": {"SWAPPED_INPUTS"},
    "position_bias_missing": {"TERM"},
    "class_token_at_the_end": {"ORDER", "SHIFT"},
    "rows_of_the_batch_mixed": {"SHIFT", "ORDER"},
    "weight_times_3": {"FACTOR"},
    "weight_off_by_2_percent": {"FACTOR"},
    "weight_row_zeroed": {"ZEROS", "FACTOR"},
    "weight_transposed": {"ARRANGEMENT"},
    "weight_rows_rolled": {"ORDER", "SHIFT"},
    "bias_dropped": {"OFFSET", "TERM"},
    "bias_added_twice": {"OFFSET", "TERM"},
    "norm_epsilon_wrong": {"EPS"},
    "norm_weight_plus_one": {"FACTOR", "OFFSET"},
    "norm_does_nothing": {"SAME_AS_INPUT"},
    "final_norm_weight_lost": {"FACTOR"},
    "activation_is_another_one": {"ACTIVATION"},
    "gelu_of_the_other_kind": {"ACTIVATION"},
    "dropout_active": {"DROPOUT"},
    "one_position_wrong": {"SUBSET", "FACTOR", "OFFSET", "SIGN"},
    "one_channel_zeroed": {"ZEROS", "FACTOR"},
    "all_but_large_channels_zeroed": {"ZEROS", "FACTOR"},
    "result_clamped": {"SATURATED"},
    "result_too_large_by_a_little": {"FACTOR"},
    "patches_flattened_in_columns": {"ORDER", "ARRANGEMENT"},
    "channels_of_pixels_reversed": {"ORDER"},
    "loss_is_a_sum": {"FACTOR"},
    "loss_not_divided_by_the_steps": {"FACTOR"},
    "gradient_of_a_weight_halved": {"FACTOR"},
    "backward_of_attention_wrong": {"FACTOR"},
    "backward_of_the_activation_wrong": {"FACTOR"},
    "weight_decay_missing": {"FACTOR"},
    "residual_detached": {"SAME_AS_INPUT", "TERM"},
}


def judge_explanations(fault: str, answer: dict[str, Any]) -> str:
    """Returns whether the explanations of the first maker are `right` or `wrong`.

    That only some indices differ is always right, but explains only the faults
    that list it.
    """
    makers = answer["comparison"]["makers"]
    kinds = (
        {one["kind"] for one in makers[0].get("explanations", [])} if makers else set()
    )
    right = KINDS.get(fault, set())
    if kinds & right:
        return "right"
    return "wrong" if kinds - {"SUBSET"} else "none"
