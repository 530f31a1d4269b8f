"""The formula of each layer, loss and optimizer, in LaTeX, which the reference shows beneath its first sentence.

Docstrings say the same in words and in code, as `help` prints them. The site has them as MathML, which browsers show
without a script and without a network: `as_mathml`.
"""

from __future__ import annotations

from docutils.utils.math.latex2mathml import tex2mathml

__all__ = ["FORMULAS", "WITHOUT", "as_mathml", "formula_of"]

_CONVOLUTION = (
    r"\text{output}_{n,k,i} = b_k + \sum_{c} \sum_{a} W_{k,c,a} \, x_{n,\,c,\;i \cdot \text{stride} + a \cdot "
    r"\text{dilation} - \text{padding}}"
)
_CONVOLUTION_2 = (
    r"\text{output}_{n,k,i,j} = b_k + \sum_{c} \sum_{a,\,b} W_{k,c,a,b} \, x_{n,\,c,\;i s_1 + a d_1 - p_1,\;"
    r"j s_2 + b d_2 - p_2}"
)
_TRANSPOSED = (
    r"\text{output}_{n,k,j} = b_k + \sum_{c} \; \sum_{i \cdot \text{stride} + a \cdot \text{dilation} - "
    r"\text{padding} = j} W_{c,k,a} \, x_{n,c,i}"
)
_TRANSPOSED_2 = (
    r"\text{output}_{n,k,u,v} = b_k + \sum_{c} \; \sum_{i s_1 + a d_1 - p_1 = u} \; \sum_{j s_2 + b d_2 - p_2 = v} "
    r"W_{c,k,a,b} \, x_{n,c,i,j}"
)
# Of volumes the indices of positions are triples.
_CONVOLUTION_3 = _CONVOLUTION.replace(r"\cdot", r"\odot") + r", \qquad i, a \text{ triples}"
_TRANSPOSED_3 = _TRANSPOSED.replace(r"\cdot", r"\odot") + r", \qquad i, j, a \text{ triples}"
_NORMALIZED = r"y = \frac{x - \operatorname{mean}(x)}{\sqrt{\operatorname{var}(x) + \varepsilon}} \cdot w + b"
_AVERAGE = r"y_i = \frac{1}{|K_i|} \sum_{j \in K_i} x_j, \qquad K_i \text{ the window of } i"
_MAXIMUM = r"y_i = \max_{j \in K_i} x_j, \qquad K_i \text{ the window of } i"
_ADAPTIVE = r"K_i = \left\{ \lfloor i n / m \rfloor, \ldots, \lceil (i + 1) n / m \rceil - 1 \right\}"
_ADAPTIVE_AVERAGE = rf"y_i = \frac{{1}}{{|K_i|}} \sum_{{j \in K_i}} x_j, \qquad {_ADAPTIVE}"
_ADAPTIVE_MAXIMUM = rf"y_i = \max_{{j \in K_i}} x_j, \qquad {_ADAPTIVE}"
_FRACTIONAL = (
    r"\begin{aligned} y_i &= \max_{j \in K_i} x_j, \qquad K_i = \{a_i, \ldots, a_i + k - 1\} \\ a_i &= \lfloor (i + u) "
    r"\alpha \rfloor - \lfloor u \alpha \rfloor, \qquad \alpha = \frac{n - k}{m - 1}, \; u \sim U(0, 1) \end{aligned}"
)
_POWERS = (
    r"y_i = \left( \sum_{j \in K_i} x_j^{\,p} \right)^{1 / p}, \qquad K_i \text{ the window of } i, \; p = "
    r"\text{norm_type}"
)
_UNPOOLED = r"y_j = \begin{cases} x_i & \text{indices}_i = j \\ 0 & \text{otherwise} \end{cases}"
_DROPOUT = (
    r"y = \frac{m \odot x}{1 - p}, \qquad m_{MEMBERS} \sim \operatorname{Bernoulli}(1 - p) \text{ for each MEMBER}"
)
_ALPHA_DROPOUT = (
    r"\begin{aligned} y &= s \left( m \odot x - \alpha (1 - m) + \alpha p \right), \qquad m_{MEMBERS} \sim "
    r"\operatorname{Bernoulli}(1 - p) \text{ for each MEMBER} \\"
    r" s &= \frac{1}{\sqrt{(1 - p) (1 + \alpha^2 p)}}, \qquad \alpha \approx 1.7581 \end{aligned}"
)
_RNN = r"h_t = \tanh(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh})"
_GRU = (
    r"\begin{aligned} r_t &= \sigma(W_{ir} x_t + b_{ir} + W_{hr} h_{t-1} + b_{hr}) \\"
    r" z_t &= \sigma(W_{iz} x_t + b_{iz} + W_{hz} h_{t-1} + b_{hz}) \\"
    r" n_t &= \tanh(W_{in} x_t + b_{in} + r_t \odot (W_{hn} h_{t-1} + b_{hn})) \\"
    r" h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1} \end{aligned}"
)
_LSTM = (
    r"\begin{aligned} i_t &= \sigma(W_{ii} x_t + b_{ii} + W_{hi} h_{t-1} + b_{hi}) \\"
    r" f_t &= \sigma(W_{if} x_t + b_{if} + W_{hf} h_{t-1} + b_{hf}) \\"
    r" g_t &= \tanh(W_{ig} x_t + b_{ig} + W_{hg} h_{t-1} + b_{hg}) \\"
    r" o_t &= \sigma(W_{io} x_t + b_{io} + W_{ho} h_{t-1} + b_{ho}) \\"
    r" c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\"
    r" h_t &= o_t \odot \tanh(c_t) \end{aligned}"
)
_ALONG_AN_AXIS = r", \qquad n \text{ elements of an axis, } l \text{ in front}"
_PADDED = r"y_i = \begin{cases} x_{i - l} & 0 \le i - l < n \\ VALUE & \text{otherwise} \end{cases}" + _ALONG_AN_AXIS
_SOFTMAX = r"y_i = \frac{e^{x_i}}{\sum_j e^{x_j}}"


def _by_name(mathematics: dict[str, str]) -> dict[str, str]:
    """Return the table with an entry for each of the names, separated by blanks, that a key has."""
    return {name: formula for names, formula in mathematics.items() for name in names.split()}


#: By the name within `nn` or `optim`. Of a loss, that of one element or sample: `reduction` makes one number of all.
FORMULAS = _by_name(
    {
        # Activations.
        "relu ReLU": r"y = \max(x, 0)",
        "relu6 ReLU6": r"y = \min(\max(x, 0), 6)",
        "leaky_relu LeakyReLU": r"y = \begin{cases} x & x > 0 \\ \text{negative_slope} \cdot x & x \le 0 \end{cases}",
        "prelu PReLU": r"y = \begin{cases} x & x > 0 \\ w x & x \le 0 \end{cases}",
        "rrelu RReLU": (
            r"y = \begin{cases} x & x > 0 \\ a x & x \le 0 \end{cases}, \qquad a \sim U(\text{lower}, \text{upper})"
        ),
        "elu ELU": r"y = \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}",
        "celu CELU": r"y = \begin{cases} x & x > 0 \\ \alpha (e^{x / \alpha} - 1) & x \le 0 \end{cases}",
        "selu SELU": (
            r"y = s \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}, \qquad "
            r"s \approx 1.0507, \; \alpha \approx 1.6733"
        ),
        "gelu GELU": r"y = x \, \Phi(x) = \frac{x}{2} \left( 1 + \operatorname{erf} \frac{x}{\sqrt{2}} \right)",
        "silu SiLU": r"y = x \, \sigma(x) = \frac{x}{1 + e^{-x}}",
        "mish Mish": r"y = x \tanh(\log(1 + e^x))",
        "sigmoid Sigmoid": r"y = \sigma(x) = \frac{1}{1 + e^{-x}}",
        "logsigmoid LogSigmoid": r"y = \log \sigma(x) = -\log(1 + e^{-x})",
        "hardsigmoid Hardsigmoid": r"y = \min\left(\max\left(\frac{x}{6} + \frac{1}{2}, 0\right), 1\right)",
        "hardswish Hardswish": r"y = x \min\left(\max\left(\frac{x}{6} + \frac{1}{2}, 0\right), 1\right)",
        "tanh Tanh": r"y = \tanh(x) = \frac{e^x - e^{-x}}{e^x + e^{-x}}",
        "tanhshrink Tanhshrink": r"y = x - \tanh(x)",
        "hardtanh Hardtanh": r"y = \min(\max(x, \text{min_val}), \text{max_val})",
        "softplus Softplus": r"y = \frac{1}{\beta} \log(1 + e^{\beta x})",
        "softsign Softsign": r"y = \frac{x}{1 + |x|}",
        "hardshrink Hardshrink": r"y = \begin{cases} x & |x| > \lambda \\ 0 & |x| \le \lambda \end{cases}",
        "softshrink Softshrink": r"y = \operatorname{sign}(x) \max(|x| - \lambda, 0)",
        "threshold Threshold": (
            r"y = \begin{cases} x & x > \text{threshold} \\ \text{value} & x \le \text{threshold} \end{cases}"
        ),
        "softmax Softmax Softmax2d": _SOFTMAX,
        "log_softmax LogSoftmax": r"y_i = \log \frac{e^{x_i}}{\sum_j e^{x_j}} = x_i - \log \sum_j e^{x_j}",
        "softmin Softmin": r"y_i = \frac{e^{-x_i}}{\sum_j e^{-x_j}}",
        "gumbel_softmax": (
            r"y_i = \frac{e^{(x_i + G_i) / \tau}}{\sum_j e^{(x_j + G_j) / \tau}}, \qquad G_i \sim "
            r"\operatorname{Gumbel}(0, 1)"
        ),
        "glu GLU": r"y = a \, \sigma(b), \qquad x = [a, b] \text{ along the axis}",
        # Linear maps, convolutions, windows.
        "linear Linear LazyLinear": r"y = x W^{\mathsf T} + b",
        "bilinear Bilinear": r"y_k = x_1^{\mathsf T} W_k \, x_2 + b_k",
        "Identity": r"y = x",
        "conv1d Conv1d LazyConv1d": _CONVOLUTION,
        "conv2d Conv2d LazyConv2d": _CONVOLUTION_2,
        "conv3d Conv3d LazyConv3d": _CONVOLUTION_3,
        "conv_transpose1d ConvTranspose1d LazyConvTranspose1d": _TRANSPOSED,
        "conv_transpose2d ConvTranspose2d LazyConvTranspose2d": _TRANSPOSED_2,
        "conv_transpose3d ConvTranspose3d LazyConvTranspose3d": _TRANSPOSED_3,
        "avg_pool1d avg_pool2d avg_pool3d AvgPool1d AvgPool2d AvgPool3d": _AVERAGE,
        "max_pool1d max_pool2d max_pool3d MaxPool1d MaxPool2d MaxPool3d": _MAXIMUM,
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d AdaptiveAvgPool1d AdaptiveAvgPool2d "
        "AdaptiveAvgPool3d": _ADAPTIVE_AVERAGE,
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
        "AdaptiveMaxPool3d": _ADAPTIVE_MAXIMUM,
        "fractional_max_pool2d fractional_max_pool3d FractionalMaxPool2d FractionalMaxPool3d": _FRACTIONAL,
        "lp_pool1d lp_pool2d lp_pool3d LPPool1d LPPool2d LPPool3d": _POWERS,
        "max_unpool1d max_unpool2d max_unpool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d": _UNPOOLED,
        "unfold Unfold": r"y_{n,\,(c, a, b),\,(i, j)} = x_{n,\,c,\;i s_1 + a d_1 - p_1,\;j s_2 + b d_2 - p_2}",
        "fold Fold": (
            r"y_{n,c,u,v} = \sum_{i s_1 + a d_1 - p_1 = u} \; \sum_{j s_2 + b d_2 - p_2 = v} x_{n,\,(c, a, b),\,(i, j)}"
        ),
        "pixel_shuffle PixelShuffle": (
            r"y_{c,\;i r + a,\;j r + b} = x_{c r^2 + a r + b,\;i,\;j}, \qquad r = \text{upscale_factor}, \; 0 \le a, b "
            r"< r"
        ),
        "pixel_unshuffle PixelUnshuffle": (
            r"y_{c r^2 + a r + b,\;i,\;j} = x_{c,\;i r + a,\;j r + b}, \qquad r = \text{downscale_factor}, \; 0 \le a, "
            r"b < r"
        ),
        "channel_shuffle ChannelShuffle": (
            r"y_{k \cdot \text{groups} + g} = x_{g C / \text{groups} + k}, \qquad 0 \le g < \text{groups}, \; C "
            r"\text{ the number of channels}"
        ),
        "pad ConstantPad1d ConstantPad2d ConstantPad3d": _PADDED.replace("VALUE", r"\text{value}"),
        "ZeroPad1d ZeroPad2d ZeroPad3d": _PADDED.replace("VALUE", "0"),
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d": r"y_i = x_{n - 1 - |n - 1 - |i - l||}" + _ALONG_AN_AXIS,
        "ReplicationPad1d ReplicationPad2d ReplicationPad3d": (
            r"y_i = x_{\min(\max(i - l, 0), n - 1)}" + _ALONG_AN_AXIS
        ),
        "CircularPad1d CircularPad2d CircularPad3d": r"y_i = x_{(i - l) \operatorname{mod} n}" + _ALONG_AN_AXIS,
        "interpolate Upsample UpsamplingNearest2d": (
            r"y_i = x_{\lfloor i n / m \rfloor}, \qquad n \text{ elements of an axis become } m"
        ),
        "UpsamplingBilinear2d": (
            r"y_{i,j} = \sum_{u,\,v} x_{u,v} \max\left(0, 1 - \left| u - i \, \tfrac{h - 1}{h' - 1} \right|\right) "
            r"\max\left(0, 1 - \left| v - j \, \tfrac{w - 1}{w' - 1} \right|\right)"
        ),
        "Flatten": r"y_{b,\;(i n_2 + j) n_3 + k} = x_{b,i,j,k}",
        "Unflatten": r"y_{b,i,j,k} = x_{b,\;(i n_2 + j) n_3 + k}",
        "Sequential": r"y = f_N(\cdots f_2(f_1(x)))",
        "affine_grid": (
            r"y_{n,i,j} = \theta_n \begin{pmatrix} (2 j + 1) / w - 1 \\ (2 i + 1) / h - 1 \\ 1 \end{pmatrix}"
        ),
        "grid_sample": (
            r"\begin{aligned} y_{n,c,i,j} &= \sum_{u,\,v} x_{n,c,u,v} \max(0, 1 - |u - p|) \max(0, 1 - |v - q|) \\"
            r" (q, p) &= \left( \frac{(a + 1) w - 1}{2}, \frac{(b + 1) h - 1}{2} \right), \qquad (a, b) = "
            r"\text{grid}_{n,i,j} \end{aligned}"
        ),
        "dropout Dropout": _DROPOUT.replace("MEMBERS", "i").replace("MEMBER", "element"),
        "dropout1d dropout2d dropout3d Dropout1d Dropout2d Dropout3d": (
            _DROPOUT.replace("MEMBERS", "c").replace("MEMBER", "channel")
        ),
        "alpha_dropout AlphaDropout": _ALPHA_DROPOUT.replace("MEMBERS", "i").replace("MEMBER", "element"),
        "feature_alpha_dropout FeatureAlphaDropout": (
            _ALPHA_DROPOUT.replace("MEMBERS", "c").replace("MEMBER", "channel")
        ),
        "embedding Embedding": r"y_{i} = W_{\text{indices}_i}",
        "embedding_bag EmbeddingBag": (
            r"y_k = \frac{1}{|B_k|} \sum_{i \in B_k} W_{\text{input}_i}, \qquad B_k \text{ the bag } k"
        ),
        "one_hot": r"y_{i,k} = \begin{cases} 1 & k = \text{labels}_i \\ 0 & \text{otherwise} \end{cases}",
        "topk": (
            r"\text{values}_i = x_{\text{indices}_i}, \qquad x_{\text{indices}_1} \ge x_{\text{indices}_2} \ge \ldots "
            r"\ge x_{\text{indices}_k} \ge \text{all others}"
        ),
        "kthvalue": r"y = x_{(k)}, \qquad x_{(1)} \le x_{(2)} \le \ldots \le x_{(n)}",
        "cummax": r"y_i = \max(x_1, \ldots, x_i)",
        "cummin": r"y_i = \min(x_1, \ldots, x_i)",
        "scatter_reduce": (
            r"y_k = \text{reduce}\left(\{\text{input}_k\} \cup \{\text{src}_i : \text{index}_i = k\}\right)"
        ),
        # Normalization and distances.
        "batch_norm layer_norm group_norm instance_norm BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
        "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d": _NORMALIZED,
        "rms_norm RMSNorm": r"y = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \varepsilon}} \cdot w",
        "local_response_norm LocalResponseNorm": (
            r"y_c = x_c \left( k + \frac{\alpha}{\text{size}} \sum_{j = c - \lfloor \text{size} / 2 \rfloor}^{c + "
            r"\lfloor (\text{size} - 1) / 2 \rfloor} x_j^2 \right)^{-\beta}"
        ),
        "normalize": r"y = \frac{x}{\max({\lVert x \rVert}_p, \varepsilon)}",
        "cosine_similarity CosineSimilarity": (
            r"y = \frac{x_1 \cdot x_2}{\max({\lVert x_1 \rVert}_2, \varepsilon) \, \max({\lVert x_2 \rVert}_2, "
            r"\varepsilon)}"
        ),
        "pairwise_distance PairwiseDistance": r"d(x_1, x_2) = {\lVert x_1 - x_2 + \varepsilon \rVert}_p",
        # Attention, recurrence, transformers.
        "scaled_dot_product_attention": (
            r"y = \operatorname{softmax}\left(\frac{Q K^{\mathsf T}}{\sqrt{d}} + \text{mask}\right) V"
        ),
        "MultiheadAttention multi_head_attention_forward": (
            r"\begin{aligned} y &= [\text{head}_1, \ldots, \text{head}_h] \, W_O^{\mathsf T} + b_O \\ \text{head}_i &= "
            r"\operatorname{softmax}\left(\frac{Q_i K_i^{\mathsf T}}{\sqrt{d / h}} + \text{mask}\right) V_i "
            r"\end{aligned}"
        ),
        "RNN RNNCell": _RNN,
        "GRU GRUCell": _GRU,
        "LSTM LSTMCell": _LSTM,
        "TransformerEncoderLayer": (
            r"\begin{aligned} z &= \operatorname{norm}(x + \operatorname{attention}(x, x, x)) \\"
            r" y &= \operatorname{norm}(z + W_2 \, \text{activation}(W_1 z + b_1) + b_2) \end{aligned}"
        ),
        "TransformerDecoderLayer": (
            r"\begin{aligned} u &= \operatorname{norm}(x + \operatorname{attention}(x, x, x)) \\"
            r" z &= \operatorname{norm}(u + \operatorname{attention}(u, \text{memory}, \text{memory})) \\"
            r" y &= \operatorname{norm}(z + W_2 \, \text{activation}(W_1 z + b_1) + b_2) \end{aligned}"
        ),
        "TransformerEncoder TransformerDecoder": (
            r"y = \operatorname{norm}(\text{layer}_N(\cdots \text{layer}_2(\text{layer}_1(x))))"
        ),
        "Transformer": r"y = \text{decoder}(\text{tgt}, \text{encoder}(\text{src}))",
        # Losses.
        "mse_loss MSELoss": r"\ell = (x - t)^2",
        "l1_loss L1Loss": r"\ell = |x - t|",
        "smooth_l1_loss SmoothL1Loss": (
            r"\ell = \begin{cases} \frac{1}{2 \beta} (x - t)^2 & |x - t| < \beta \\ |x - t| - \frac{\beta}{2} & "
            r"\text{otherwise} \end{cases}"
        ),
        "huber_loss HuberLoss": (
            r"\ell = \begin{cases} \frac{1}{2} (x - t)^2 & |x - t| \le \delta \\ \delta \left(|x - t| - "
            r"\frac{\delta}{2}\right) & \text{otherwise} \end{cases}"
        ),
        "cross_entropy CrossEntropyLoss": r"\ell = -w_t \log \frac{e^{x_t}}{\sum_j e^{x_j}}",
        "nll_loss NLLLoss": r"\ell = -w_t \, x_t",
        "binary_cross_entropy BCELoss": r"\ell = -w \left( t \log x + (1 - t) \log (1 - x) \right)",
        "binary_cross_entropy_with_logits BCEWithLogitsLoss": (
            r"\ell = -w \left( \text{pos_weight} \cdot t \log \sigma(x) + (1 - t) \log (1 - \sigma(x)) \right)"
        ),
        "kl_div KLDivLoss": r"\ell = t (\log t - x), \qquad x \text{ a logarithm}",
        "poisson_nll_loss PoissonNLLLoss": r"\ell = e^x - t x, \qquad x \text{ the logarithm of the rate}",
        "gaussian_nll_loss GaussianNLLLoss": (
            r"\ell = \frac{1}{2} \left( \log \max(\text{var}, \varepsilon) + \frac{(x - t)^2}{\max(\text{var}, "
            r"\varepsilon)} \right)"
        ),
        "hinge_embedding_loss HingeEmbeddingLoss": (
            r"\ell = \begin{cases} x & t = 1 \\ \max(0, \text{margin} - x) & t = -1 \end{cases}"
        ),
        "margin_ranking_loss MarginRankingLoss": r"\ell = \max(0, \text{margin} - t (x_1 - x_2))",
        "cosine_embedding_loss CosineEmbeddingLoss": (
            r"\ell = \begin{cases} 1 - \cos(x_1, x_2) & t = 1 \\ \max(0, \cos(x_1, x_2) - \text{margin}) & t = -1 "
            r"\end{cases}"
        ),
        "soft_margin_loss SoftMarginLoss": r"\ell = \log(1 + e^{-t x})",
        "multilabel_margin_loss MultiLabelMarginLoss": (
            r"\ell = \frac{1}{C} \sum_{k \text{ right}} \; \sum_{j \text{ wrong}} \max(0, 1 - x_k + x_j)"
        ),
        "multilabel_soft_margin_loss MultiLabelSoftMarginLoss": (
            r"\ell = -\frac{1}{C} \sum_{k} w_k \left( t_k \log \sigma(x_k) + (1 - t_k) \log (1 - \sigma(x_k)) \right)"
        ),
        "multi_margin_loss MultiMarginLoss": (
            r"\ell = \frac{1}{C} \sum_{j \ne t} w_t \max(0, \text{margin} - x_t + x_j)^p"
        ),
        "triplet_margin_loss triplet_margin_with_distance_loss TripletMarginLoss TripletMarginWithDistanceLoss": (
            r"\ell = \max(0, \text{margin} + d(\text{anchor}, \text{positive}) - d(\text{anchor}, \text{negative}))"
        ),
        "AdaptiveLogSoftmaxWithLoss": (
            r"\text{output} = \log p(\text{target}), \qquad p(k) = \begin{cases} \operatorname{softmax}(h)_k & k "
            r"\text{ is frequent} \\ \operatorname{softmax}(h)_{c} \, \operatorname{softmax}(t_c)_{k} & k \text{ is in "
            r"cluster } c \end{cases}"
        ),
        "ctc_loss CTCLoss": (
            r"\ell = -\log \sum_{\pi} \prod_{s} e^{x_{s, \pi_s}}, \qquad \pi \text{ each path that, without "
            r"repetitions and blanks, is the target}"
        ),
        # Optimizers: θ is a parameter, g its gradient, η the learning rate, λ weight_decay.
        "SGD": (
            r"\begin{aligned} g_t &\leftarrow g_t + \lambda \theta_{t-1} \\ v_t &= \mu v_{t-1} + (1 - \text{dampening})"
            r" \, g_t, \qquad v_1 = g_1 \\ \theta_t &= \theta_{t-1} - \eta v_t \end{aligned}"
        ),
        "Adagrad": (
            r"\begin{aligned} s_t &= s_{t-1} + g_t^2 \\ \theta_t &= \theta_{t-1} - \frac{\eta}{1 + (t - 1) \,"
            r" \text{lr_decay}} \cdot \frac{g_t}{\sqrt{s_t} + \varepsilon} \end{aligned}"
        ),
        "Adam": (
            r"\begin{aligned} m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t \\ v_t &= \beta_2 v_{t-1} + (1 - \beta_2) "
            r"g_t^2 \\ \theta_t &= \theta_{t-1} - \eta \, \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + "
            r"\varepsilon} \end{aligned}"
        ),
        "AdamW": (
            r"\begin{aligned} m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t \\ v_t &= \beta_2 v_{t-1} + (1 - \beta_2) "
            r"g_t^2 \\ \theta_t &= (1 - \eta \lambda) \theta_{t-1} - \eta \, \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / "
            r"(1 - \beta_2^t)} + \varepsilon} \end{aligned}"
        ),
        "Adamax": (
            r"\begin{aligned} m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t \\ u_t &= \max(\beta_2 u_{t-1}, |g_t| + "
            r"\varepsilon) \\ \theta_t &= \theta_{t-1} - \frac{\eta}{1 - \beta_1^t} \cdot \frac{m_t}{u_t} \end{aligned}"
        ),
        "NAdam": (
            r"\begin{aligned} m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t \\ v_t &= \beta_2 v_{t-1} + (1 - \beta_2) "
            r"g_t^2 \\ \mu_t &= \beta_1 \left( 1 - \frac{1}{2} \cdot 0.96^{t \cdot \text{momentum_decay}} \right), "
            r"\qquad M_t = \mu_1 \mu_2 \cdots \mu_t \\ \theta_t &= \theta_{t-1} - \eta \, \frac{(1 - \mu_t) \, g_t / "
            r"(1 - M_t) + \mu_{t+1} m_t / (1 - M_{t+1})}{\sqrt{v_t / (1 - \beta_2^t)} + \varepsilon} \end{aligned}"
        ),
        "RAdam": (
            r"\begin{aligned} m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t \\ v_t &= \beta_2 v_{t-1} + (1 - \beta_2) "
            r"g_t^2 \\ \rho_t &= \rho_\infty - \frac{2 t \beta_2^t}{1 - \beta_2^t}, \qquad \rho_\infty = \frac{2}{1 - "
            r"\beta_2} - 1 \\ r_t &= \sqrt{\frac{(\rho_t - 4) (\rho_t - 2) \rho_\infty}{(\rho_\infty - 4) (\rho_\infty "
            r"- 2) \rho_t}} \\ \theta_t &= \theta_{t-1} - \eta \, \frac{m_t}{1 - \beta_1^t} \cdot \begin{cases} r_t "
            r"\sqrt{1 - \beta_2^t} / (\sqrt{v_t} + \varepsilon) & \rho_t > 5 \\ 1 & \text{otherwise} \end{cases} "
            r"\end{aligned}"
        ),
        "Adadelta": (
            r"\begin{aligned} s_t &= \rho s_{t-1} + (1 - \rho) g_t^2 \\ d_t &= \frac{\sqrt{u_{t-1} + "
            r"\varepsilon}}{\sqrt{s_t + \varepsilon}} \, g_t \\ u_t &= \rho u_{t-1} + (1 - \rho) d_t^2 \\ \theta_t &= "
            r"\theta_{t-1} - \eta d_t \end{aligned}"
        ),
        # Of a matrix: r are means of rows, c of columns. Of a vector v is a mean of squares, of the same share.
        "Adafactor": (
            r"\begin{aligned} r_t &= r_{t-1} + t^{\text{beta2_decay}} \left( \operatorname{mean}_{\text{row}}(g_t^2) - "
            r"r_{t-1} \right) \\ c_t &= c_{t-1} + t^{\text{beta2_decay}} \left( "
            r"\operatorname{mean}_{\text{column}}(g_t^2) - c_{t-1} \right) \\ v_t &= \max\left(\frac{r_t "
            r"c_t}{\max(\operatorname{mean}(r_t), \varepsilon_1)}, \varepsilon_1^2\right), \qquad u_t = "
            r"\frac{g_t}{\sqrt{v_t}} \\ \theta_t &= (1 - \eta \lambda) \theta_{t-1} - \max(\varepsilon_2, "
            r"\operatorname{rms}(\theta_{t-1})) \min\left(\eta, \frac{1}{\sqrt{t}}\right) \frac{u_t}{\max(1, "
            r"\operatorname{rms}(u_t) / d)} \end{aligned}"
        ),
        "RMSprop": (
            r"\begin{aligned} s_t &= \alpha s_{t-1} + (1 - \alpha) g_t^2 \\ \theta_t &= \theta_{t-1} - \eta \, "
            r"\frac{g_t}{\sqrt{s_t} + \varepsilon} \end{aligned}"
        ),
        "Lion": (
            r"\begin{aligned} \theta_t &= (1 - \eta \lambda) \theta_{t-1} - \eta \operatorname{sign}(\beta_1 m_{t-1} + "
            r"(1 - \beta_1) g_t) \\ m_t &= \beta_2 m_{t-1} + (1 - \beta_2) g_t \end{aligned}"
        ),
        "Rprop": (
            r"\begin{aligned} s_t &= s_{t-1} \cdot \begin{cases} \text{etas}_2 & g_t h_{t-1} > 0 \\ \text{etas}_1 & "
            r"g_t h_{t-1} < 0 \\ 1 & g_t h_{t-1} = 0 \end{cases} \qquad \text{within step_sizes}, \; s_0 = \eta \\ h_t "
            r"&= \begin{cases} 0 & g_t h_{t-1} < 0 \\ g_t & \text{otherwise} \end{cases} \\ \theta_t &= \theta_{t-1} - "
            r"s_t \operatorname{sign}(h_t) \end{aligned}"
        ),
        "ASGD": (
            r"\begin{aligned} \eta_t &= \frac{\eta}{(1 + \text{lambd} \cdot \eta (t - 1))^\alpha} \\ \theta_t &= (1 - "
            r"\text{lambd} \cdot \eta_t) \theta_{t-1} - \eta_t g_t \\ a_t &= a_{t-1} + \frac{\theta_t - "
            r"a_{t-1}}{\max(1, t - 1 - t_0)} \end{aligned}"
        ),
        "Muon": (
            r"\begin{aligned} m_t &= \mu m_{t-1} + (1 - \mu) g_t, \qquad d_t = \mu m_t + (1 - \mu) g_t \\ X_0 &= "
            r"\frac{d_t}{\max({\lVert d_t \rVert}_F, \varepsilon)}, \qquad X_{i+1} = a X_i + b X_i X_i^{\mathsf T} X_i "
            r"+ c (X_i X_i^{\mathsf T})^2 X_i \\ \theta_t &= (1 - \eta \lambda) \theta_{t-1} - \eta \sqrt{\max\left(1, "
            r"\frac{\text{rows}}{\text{columns}}\right)} \, X_{\text{ns_steps}} \end{aligned}"
        ),
        "LBFGS": (
            r"\theta_{k+1} = \theta_k - \eta_k H_k g_k, \qquad H_k \approx \left(\nabla^2 f(\theta_k)\right)^{-1}"
        ),
        "ExponentialMovingAverage": r"a_t = \text{decay} \cdot a_{t-1} + (1 - \text{decay}) \, \theta_t",
        "GradientAccumulator": r"g = \frac{1}{k} \sum_{i=1}^{k} g_i",
        "clip_grad_norm": (
            r"g \leftarrow g \cdot \min\left(1, \frac{\text{max_norm}}{{\lVert g \rVert}_p + 10^{-6}}\right)"
        ),
        "clip_grad_value": r"g \leftarrow \min(\max(g, -\text{clip_value}), \text{clip_value})",
    }
)

#: Names of `nn` and `optim` that compute nothing by themselves.
WITHOUT = frozenset(
    {
        "ElementwiseOptimizer",
        "Module",
        "ModuleDict",
        "ModuleList",
        "Optimizer",
        "Parameter",
        "ParameterDict",
        "ParameterList",
        "UninitializedParameter",
        "load_safetensors",
        "save_safetensors",
    }
)


def formula_of(name: str) -> str | None:
    """Return the formula of a public name such as `asyncgrad.nn.relu`, in LaTeX, or None."""
    space, _, short = name.rpartition(".")
    return FORMULAS.get(short) if space in ("asyncgrad.nn", "asyncgrad.optim") else None


def as_mathml(formula: str, is_block: bool = True) -> str:
    """Return a formula as MathML, which a browser shows by itself.

    Raises:
        ValueError: docutils does not know what stands in it.
    """
    text: str = tex2mathml(formula, as_block=is_block)
    return text
