"""The torch functions whose calls are recorded, by the place where they are found.

Names are separated by white space. Names that the installed torch does not have
are skipped when functions are wrapped. The lists omit functions that only query
a tensor, open a view without a function in `torch`, or return memory that was
not written yet. They also omit functions that msprobe ignores and that are
written in Python, because recording them would hide the functions that they
call.
"""

# Functions of the module `torch`.
TORCH = """
    _adaptive_avg_pool2d _add_relu _add_relu_ _aminmax
    _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_
    _batch_norm_impl_index _convolution _convolution_mode _foreach_abs _foreach_abs_
    _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ _foreach_addcdiv
    _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin
    _foreach_asin_ _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_
    _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_
    _foreach_clone _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh
    _foreach_cosh_ _foreach_div _foreach_div_ _foreach_erf _foreach_erf_
    _foreach_erfc _foreach_erfc_ _foreach_exp _foreach_exp_ _foreach_expm1
    _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_
    _foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log
    _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2
    _foreach_log2_ _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_
    _foreach_minimum _foreach_minimum_ _foreach_mm _foreach_mul _foreach_mul_
    _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow _foreach_pow_
    _foreach_powsum _foreach_reciprocal _foreach_reciprocal_ _foreach_round
    _foreach_round_ _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid
    _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_
    _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub
    _foreach_sub_ _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_
    _foreach_trunc _foreach_trunc_ _foreach_zero_ _fused_adagrad_ _fused_adam_
    _fused_adamw_ _fused_dropout _fused_moving_avg_obs_fq_helper _fused_rms_norm
    _fused_sdp_choice _fused_sgd_ _grouped_mm _int_mm
    _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps
    _scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
    _scaled_grouped_mm _scaled_grouped_mm_v2 _scaled_mm _scaled_mm_v2
    _softmax_backward_data _weight_int4pack_mm _weight_int4pack_mm_for_cpu
    _weight_int4pack_mm_with_scales_and_zeros _weight_int8pack_mm abs abs_ absolute
    acos acos_ acosh acosh_ adaptive_avg_pool1d adaptive_max_pool1d add addbmm
    addcdiv addcmul addmm addmv addmv_ addr adjoint affine_grid_generator all
    allclose alpha_dropout alpha_dropout_ amax amin aminmax angle any arange arccos
    arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan_
    arctanh arctanh_ argmax argmin argsort argwhere as_strided_ as_strided_copy
    as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan_ atanh atanh_
    atleast_1d atleast_2d atleast_3d avg_pool1d baddbmm bartlett_window batch_norm
    batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
    batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats
    batch_norm_update_stats bernoulli bilinear binary_cross_entropy_with_logits
    bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor blackman_window block_diag bmm broadcast_tensors
    broadcast_to bucketize cartesian_prod cat ccol_indices_copy cdist ceil ceil_
    celu celu_ chain_matmul channel_shuffle cholesky cholesky_inverse cholesky_solve
    choose_qparams_optimized chunk clamp clamp_ clamp_max clamp_max_ clamp_min
    clamp_min_ clip clip_ clone col_indices_copy column_stack combinations complex
    concat concatenate conj_physical_ constant_pad_nd conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d convolution copysign corrcoef
    cos cos_ cosh cosh_ cosine_embedding_loss cosine_similarity count_nonzero cov
    cross crow_indices_copy ctc_loss cummax cummin cumprod cumsum
    cumulative_trapezoid deg2rad deg2rad_ det detach_ detach_copy diag diag_embed
    diagflat diagonal diagonal_copy diagonal_scatter diff digamma dist div divide
    dot dropout dropout_ dsmm dsplit dstack einsum embedding embedding_bag
    embedding_renorm_ eq equal erf erf_ erfc erfc_ erfinv exp exp2 exp2_ exp_
    expand_copy expm1 expm1_ eye fake_quantize_per_channel_affine
    fake_quantize_per_tensor_affine feature_alpha_dropout feature_alpha_dropout_
    feature_dropout feature_dropout_ fill_ fix fix_ flatten flip fliplr flipud
    float_power floor floor_ floor_divide fmax fmin fmod frac frac_ frexp
    frobenius_norm full full_like fused_moving_avg_obs_fake_quant gather gcd gcd_ ge
    geqrf ger gradient greater greater_equal grid_sampler grid_sampler_2d
    grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink
    heaviside hinge_embedding_loss histc histogram histogramdd hsmm hsplit hspmm
    hstack hypot i0 i0_ igamma igammac index_add index_copy index_fill index_put
    index_put_ index_reduce index_select indices_copy inner instance_norm inverse
    isclose isfinite isin isinf isnan isneginf isposinf isreal istft kaiser_window
    kl_div kron kthvalue layer_norm lcm lcm_ ldexp ldexp_ le lerp less less_equal
    lgamma linspace log log10 log10_ log1p log1p_ log2 log2_ log_ log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or
    logical_xor logit logit_ logspace logsumexp lstm lstm_cell lt lu lu_solve
    lu_unpack margin_ranking_loss masked_fill masked_scatter masked_select matmul
    matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d
    max_pool3d maximum mean median meshgrid min minimum miopen_batch_norm
    miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
    miopen_convolution_transpose miopen_depthwise_convolution miopen_rnn mm mode
    moveaxis movedim msort mul multinomial multiply mv mvlgamma nan_to_num
    nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy
    native_batch_norm native_channel_shuffle native_dropout native_group_norm
    native_layer_norm native_norm ne neg neg_ negative negative_ nextafter nonzero
    nonzero_static norm norm_except_dim normal not_equal nuclear_norm ones_like
    orgqr ormqr outer pairwise_distance pdist permute permute_copy pinverse
    pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma positive
    pow prelu prod put qr quantile quantize_per_channel quantize_per_tensor
    quantize_per_tensor_dynamic quantized_batch_norm quantized_gru_cell
    quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d
    quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell rad2deg
    rad2deg_ rand randint randn randperm range ravel reciprocal reciprocal_ relu
    relu_ remainder renorm repeat_interleave reshape resize_as_ resize_as_sparse_
    rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round round_
    row_indices_copy row_stack rrelu rrelu_ rsqrt rsqrt_ rsub saddmm scalar_tensor
    scatter scatter_add scatter_reduce searchsorted select select_copy
    select_scatter selu selu_ sgn sigmoid sigmoid_ sign signbit sin sin_ sinc sinc_
    sinh sinh_ slice_copy slice_scatter slogdet smm softmax sort
    split split_copy split_with_sizes split_with_sizes_copy spmm sqrt sqrt_ square
    square_ squeeze squeeze_copy sspaddmm stack std std_mean stft sub subtract sum
    svd swapaxes swapdims t t_copy take take_along_dim tan tan_ tanh tanh_
    tensor_split tensordot threshold threshold_ tile topk trace transpose
    transpose_copy trapezoid trapz triangular_solve tril tril_indices
    triplet_margin_loss triu triu_indices true_divide trunc trunc_ unbind
    unbind_copy unflatten unfold_copy unique unique_consecutive unravel_index
    unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy
    values_copy vander var var_mean vdot view_as_complex view_as_complex_copy
    view_as_real view_as_real_copy view_copy vsplit vstack where xlogy xlogy_ zero_
    zeros_like
"""

# Functions of `torch.nn.functional`.
FUNCTIONAL = """
    _threshold adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
    adaptive_max_pool2d_with_indices adaptive_max_pool3d
    adaptive_max_pool3d_with_indices affine_grid alpha_dropout avg_pool1d avg_pool2d
    avg_pool3d batch_norm bilinear binary_cross_entropy
    binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d
    conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d
    dropout2d dropout3d elu elu_ embedding embedding_bag feature_alpha_dropout fold
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
    fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu grid_sample
    group_norm grouped_mm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh
    hardtanh_ hinge_embedding_loss huber_loss instance_norm interpolate kl_div
    l1_loss layer_norm leaky_relu leaky_relu_ linear linear_cross_entropy
    local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d
    margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d
    max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d
    max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward
    multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
    native_channel_shuffle nll_loss normalize one_hot pad pairwise_distance pdist
    pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm
    rrelu rrelu_ scaled_dot_product_attention scaled_grouped_mm scaled_mm selu selu_
    sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink
    softsign tanh tanhshrink threshold threshold_ triplet_margin_loss
    triplet_margin_with_distance_loss unfold upsample upsample_bilinear
    upsample_nearest
"""

# Methods of `torch.Tensor`.
TENSOR = """
    __add__ __and__ __bool__ __div__ __eq__ __floordiv__ __ge__ __gt__ __iadd__
    __iand__ __idiv__ __ifloordiv__ __ilshift__ __imod__ __imul__ __invert__ __ior__
    __ipow__ __irshift__ __isub__ __ixor__ __le__ __lshift__ __lt__ __matmul__
    __mod__ __mul__ __ne__ __or__ __pow__ __radd__ __rand__ __rmod__ __rmul__
    __ror__ __rpow__ __rshift__ __rsub__ __rxor__ __setitem__ __sub__ __truediv__
    __xor__ abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm
    addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv addmv_ addr addr_
    adjoint all allclose amax amin aminmax angle any arccos arccos_ arccosh arccosh_
    arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_
    argmax argmin argsort argwhere as_strided_scatter asin asin_ asinh asinh_ atan
    atan2 atan2_ atan_ atanh atanh_ baddbmm baddbmm_ bernoulli bernoulli_ bfloat16
    bincount bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
    bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift
    bitwise_right_shift_ bitwise_xor bitwise_xor_ bmm bool broadcast_to byte cauchy_
    cdouble ceil ceil_ cfloat chalf char cholesky cholesky_inverse cholesky_solve
    chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone
    conj_physical contiguous copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_
    count_nonzero cov cross cummax cummin cumprod cumprod_ cumsum cumsum_ deg2rad
    deg2rad_ det diag diag_embed diagflat diagonal diagonal_scatter diff digamma
    digamma_ dist div div_ divide divide_ dot double dsplit eq eq_ equal erf erf_
    erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expm1 expm1_
    exponential_ fill_ fill_diagonal_ fix fix_ flatten flip fliplr flipud float
    float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod
    fmod_ frac frac_ frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger greater
    greater_ greater_equal greater_equal_ gt gt_ half hardshrink heaviside
    heaviside_ histc histogram hsplit hypot hypot_ i0 i0_ igamma igamma_ igammac
    igammac_ index index_add index_add_ index_copy index_copy_ index_fill
    index_fill_ index_put index_put_ index_reduce index_reduce_ index_select inner
    int inverse isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue
    lcm lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma
    lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal_ log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_and_ logical_not
    logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit logit_
    logsumexp long lt lt_ lu lu_solve masked_fill masked_fill_ masked_scatter
    masked_scatter_ masked_select matmul matrix_exp matrix_power max maximum mean
    median min minimum mm mode moveaxis movedim msort mul mul_ multinomial multiply
    multiply_ mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean nanmedian
    nanquantile nansum narrow narrow_copy ne ne_ neg neg_ negative negative_
    nextafter nextafter_ nonzero nonzero_static norm normal_ not_equal not_equal_
    numpy orgqr ormqr outer permute pinverse polygamma polygamma_ positive pow pow_
    prelu prod put put_ qr quantile rad2deg rad2deg_ random_ ravel reciprocal
    reciprocal_ relu relu_ remainder remainder_ renorm renorm_ repeat
    repeat_interleave reshape reshape_as roll rot90 round round_ rsqrt rsqrt_
    scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ select
    select_scatter sgn sgn_ short sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc
    sinc_ sinh sinh_ slice_scatter slogdet smm softmax sort sparse_mask split
    split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_ sspaddmm std stft
    sub sub_ subtract subtract_ sum sum_to_size svd swapaxes swapaxes_ swapdims
    swapdims_ t t_ take take_along_dim tan tan_ tanh tanh_ tensor_split tile to
    to_dense to_sparse topk trace transpose transpose_ triangular_solve tril tril_
    triu triu_ true_divide true_divide_ trunc trunc_ type_as unbind unflatten unfold
    uniform_ unique unique_consecutive unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_ var vdot vsplit where xlogy xlogy_
    zero_
"""

# Functions of `torch.linalg`.
LINALG = """
    cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh
    householder_product inv inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu
    lu_factor lu_factor_ex lu_solve matmul matrix_exp matrix_norm matrix_power
    matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd
    svdvals tensorinv tensorsolve vander vecdot vector_norm
"""

# Functions of `torch.fft`.
FFT = """
    fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2
    ihfftn irfft irfft2 irfftn rfft rfft2 rfftn
"""

# Functions of `torch.special`.
SPECIAL = """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t
    chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w digamma
    entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln
    hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l
    legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp
    modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
    multigammaln ndtr ndtri polygamma psi round scaled_modified_bessel_k0
    scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w sinc softmax spherical_bessel_j0 xlog1py xlogy
    zeta
"""

# Functions of `torch._VF`, where modules of torch call them.
VF = """
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
"""

# Functions of `torch.distributed`.
DISTRIBUTED = """
    _all_gather_base _reduce_scatter_base all_gather all_gather_coalesced
    all_gather_into_tensor all_reduce all_reduce_coalesced all_to_all
    all_to_all_single batch_isend_irecv broadcast gather irecv isend recv reduce
    reduce_scatter reduce_scatter_tensor scatter send
"""
