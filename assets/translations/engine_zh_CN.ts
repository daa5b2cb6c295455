<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
  <context>
    <name>Engine</name>
    <message>
      <source> and {} more</source>
      <translation>，另有 {0} 个</translation>
    </message>
    <message>
      <source> at line {}</source>
      <translation>（第 {0} 行）</translation>
    </message>
    <message>
      <source>, or it is private</source>
      <translation>，或者它是私有的</translation>
    </message>
    <message>
      <source>1024GiB is the most that can be asked for.</source>
      <translation>最多可以要求 1024GiB。</translation>
    </message>
    <message>
      <source>128 experts, and each token needs only 8 of them: quick for its size, in RAM too.</source>
      <translation>128 个专家，每个词元只用其中 8 个：就其规模而言很快，在内存中也是如此。</translation>
    </message>
    <message>
      <source>A backup in the same folder can be put in its place while Tessera is closed.</source>
      <translation>关闭 Tessera 后，可用同一文件夹中的备份替换它。</translation>
    </message>
    <message>
      <source>A budget cannot be negative.</source>
      <translation>预算不能为负数。</translation>
    </message>
    <message>
      <source>A check</source>
      <translation>某项检查</translation>
    </message>
    <message>
      <source>A context of {} tokens</source>
      <translation>{0} 个词元的上下文</translation>
    </message>
    <message>
      <source>A desktop session.</source>
      <translation>桌面会话。</translation>
    </message>
    <message>
      <source>A download is running.</source>
      <translation>有下载正在进行。</translation>
    </message>
    <message>
      <source>A file has gone: {}.</source>
      <translation>有文件已不在：{0}。</translation>
    </message>
    <message>
      <source>A large dense model: slow without a large GPU, and worth the wait for hard questions.</source>
      <translation>大型稠密模型：没有大显存 GPU 时较慢，但难题值得等待。</translation>
    </message>
    <message>
      <source>A mirror has to speak the hub's own protocol; choose another one under Settings, Network.</source>
      <translation>镜像必须使用与模型中心相同的协议；请在“设置 → 网络”中另选一个。</translation>
    </message>
    <message>
      <source>A projector, no model of its own: it belongs beside its model, and there is none in its folder.</source>
      <translation>这是投影器，本身不是模型：它应放在其模型旁边，而所在文件夹中没有模型。</translation>
    </message>
    <message>
      <source>A web page came instead of the file; probably a proxy or a network that wants you to sign in.</source>
      <translation>收到的是网页而不是文件；可能是代理，或该网络要求登录。</translation>
    </message>
    <message>
      <source>A {}, no model of its own.</source>
      <translation>这是{0}，本身不是模型。</translation>
    </message>
    <message>
      <source>About {} tok/s are predicted from rates {}.</source>
      <translation>依据{1}的速率，预测约为 {0} 词元/秒。</translation>
    </message>
    <message>
      <source>Accept them on {}, then enter an access token: the key under Library, Discover.</source>
      <translation>请在 {0} 上接受条款，然后通过“模型库 → 发现”中的钥匙按钮填写访问令牌。</translation>
    </message>
    <message>
      <source>All of it fits the GPU.</source>
      <translation>可以全部放入 GPU。</translation>
    </message>
    <message>
      <source>All states are in use.</source>
      <translation>所有状态都在使用中。</translation>
    </message>
    <message>
      <source>Allow more memory, or choose a shorter context.</source>
      <translation>请允许使用更多内存，或选择更短的上下文。</translation>
    </message>
    <message>
      <source>An access token raises the limit: the key under Library, Discover.</source>
      <translation>通过“模型库 → 发现”中的钥匙按钮填写访问令牌可以提高上限。</translation>
    </message>
    <message>
      <source>An answer has at least one token.</source>
      <translation>回答至少要有一个词元。</translation>
    </message>
    <message>
      <source>Answers at once on any machine; for short texts and for trying things out.</source>
      <translation>在任何机器上都能立即回答；适合短文本和试用。</translation>
    </message>
    <message>
      <source>Ask again to start it anew. If it stops again, choose another file of this model.</source>
      <translation>再次提问即可重新启动它。如果再次停止，请选择该模型的其他文件。</translation>
    </message>
    <message>
      <source>Ask again when an answer has ended.</source>
      <translation>请在某个回答结束后再次提问。</translation>
    </message>
    <message>
      <source>Ask again. If it happens again, see whether the model's file is still there, or simplify the grammar.</source>
      <translation>请再问一次。如果再次发生，请查看模型文件是否还在，或简化语法。</translation>
    </message>
    <message>
      <source>Attach a part of it.</source>
      <translation>请附加其中一部分。</translation>
    </message>
    <message>
      <source>Attach text, code or a PDF with text.</source>
      <translation>请附加文本、代码或含文本的 PDF。</translation>
    </message>
    <message>
      <source>CPU kernels</source>
      <translation>CPU 内核</translation>
    </message>
    <message>
      <source>CUDA kernels for compute capability {}</source>
      <translation>适用于计算能力 {} 的 CUDA 内核</translation>
    </message>
    <message>
      <source>Came with Tessera</source>
      <translation>随 Tessera 附带</translation>
    </message>
    <message>
      <source>Cancel it, open the repository again and download the new file.</source>
      <translation>请取消它，重新打开该仓库并下载新文件。</translation>
    </message>
    <message>
      <source>Change that setting.</source>
      <translation>请修改该设置。</translation>
    </message>
    <message>
      <source>Change the folder's permissions, or choose another models folder.</source>
      <translation>请修改文件夹的权限，或选择其他模型文件夹。</translation>
    </message>
    <message>
      <source>Change the grammar.</source>
      <translation>请修改语法。</translation>
    </message>
    <message>
      <source>Change the schema in the conversation's parameters, or empty it.</source>
      <translation>请在对话的参数中修改模式，或将其清空。</translation>
    </message>
    <message>
      <source>Check the address under Settings, Network.</source>
      <translation>请检查“设置 → 网络”中的地址。</translation>
    </message>
    <message>
      <source>Check the address under Settings, Privacy.</source>
      <translation>请检查“设置 → 隐私”中的地址。</translation>
    </message>
    <message>
      <source>Check the folder's permissions and free space, then start Tessera again.</source>
      <translation>请检查文件夹的权限和可用空间，然后重新启动 Tessera。</translation>
    </message>
    <message>
      <source>Check the free space and the permissions of {}.</source>
      <translation>请检查 {0} 的可用空间和权限。</translation>
    </message>
    <message>
      <source>Check the name; for a private repository enter an access token: the key under Library, Discover.</source>
      <translation>请检查名称；若是私有仓库，请通过“模型库 → 发现”中的钥匙按钮填写访问令牌。</translation>
    </message>
    <message>
      <source>Check the network, and the address, proxy and certificates under Settings, Network.</source>
      <translation>请检查网络，以及“设置 → 网络”中的地址、代理和证书。</translation>
    </message>
    <message>
      <source>Check the path, or download the model again.</source>
      <translation>请检查路径，或重新下载模型。</translation>
    </message>
    <message>
      <source>Checking the file that is already here</source>
      <translation>正在校验已有的文件</translation>
    </message>
    <message>
      <source>Checking what is already here</source>
      <translation>正在校验已有的部分</translation>
    </message>
    <message>
      <source>Choose a .gguf file.</source>
      <translation>请选择 .gguf 文件。</translation>
    </message>
    <message>
      <source>Choose a JSON or Markdown file that Tessera exported.</source>
      <translation>请选择由 Tessera 导出的 JSON 或 Markdown 文件。</translation>
    </message>
    <message>
      <source>Choose a chat or completion model.</source>
      <translation>请选择对话模型或补全模型。</translation>
    </message>
    <message>
      <source>Choose a complete model.</source>
      <translation>请选择完整的模型。</translation>
    </message>
    <message>
      <source>Choose a context of at most {} tokens, or close other programs.</source>
      <translation>请选择不超过 {0} 个词元的上下文，或关闭其他程序。</translation>
    </message>
    <message>
      <source>Choose a file that ends in .gguf.</source>
      <translation>请选择以 .gguf 结尾的文件。</translation>
    </message>
    <message>
      <source>Choose a folder elsewhere.</source>
      <translation>请选择别处的文件夹。</translation>
    </message>
    <message>
      <source>Choose a little-endian file; nearly all are.</source>
      <translation>请选择小端序的文件；几乎所有文件都是。</translation>
    </message>
    <message>
      <source>Choose a longer context, or shorten the last message.</source>
      <translation>请选择更长的上下文，或缩短最后一条消息。</translation>
    </message>
    <message>
      <source>Choose a longer context.</source>
      <translation>请选择更长的上下文。</translation>
    </message>
    <message>
      <source>Choose a model first.</source>
      <translation>请先选择模型。</translation>
    </message>
    <message>
      <source>Choose a model that Tessera runs in its own engine; the library says which.</source>
      <translation>请选择由 Tessera 原生引擎运行的模型；模型库中有说明。</translation>
    </message>
    <message>
      <source>Choose a model.</source>
      <translation>请选择模型。</translation>
    </message>
    <message>
      <source>Choose a shorter context, or a smaller model.</source>
      <translation>请选择更短的上下文，或更小的模型。</translation>
    </message>
    <message>
      <source>Choose a shorter context, or another quantization of this model.</source>
      <translation>请选择更短的上下文，或该模型的其他量化版本。</translation>
    </message>
    <message>
      <source>Choose a shorter context, or close other programs.</source>
      <translation>请选择更短的上下文，或关闭其他程序。</translation>
    </message>
    <message>
      <source>Choose a shorter context.</source>
      <translation>请选择更短的上下文。</translation>
    </message>
    <message>
      <source>Choose a smaller GPU budget.</source>
      <translation>请选择较小的 GPU 预算。</translation>
    </message>
    <message>
      <source>Choose a smaller model, or close other programs.</source>
      <translation>请选择更小的模型，或关闭其他程序。</translation>
    </message>
    <message>
      <source>Choose a smaller model.</source>
      <translation>请选择更小的模型。</translation>
    </message>
    <message>
      <source>Choose an empty folder.</source>
      <translation>请选择空文件夹。</translation>
    </message>
    <message>
      <source>Choose another file.</source>
      <translation>请选择其他文件。</translation>
    </message>
    <message>
      <source>Choose another folder, or change its permissions.</source>
      <translation>请选择其他文件夹，或更改其权限。</translation>
    </message>
    <message>
      <source>Choose another models folder.</source>
      <translation>请选择其他模型文件夹。</translation>
    </message>
    <message>
      <source>Choose another place.</source>
      <translation>请选择其他位置。</translation>
    </message>
    <message>
      <source>Choose “auto”, or one of {}.</source>
      <translation>请选择“auto”，或以下之一：{0}。</translation>
    </message>
    <message>
      <source>Clearly stronger than 8B in mathematics and code; a 12 GB graphics card would hold it whole.</source>
      <translation>在数学和代码上明显强于 8B；12 GB 显卡可完整容纳它。</translation>
    </message>
    <message>
      <source>Close other programs before loading a model.</source>
      <translation>加载模型前请关闭其他程序。</translation>
    </message>
    <message>
      <source>Close other programs that use the GPU, or allow less memory.</source>
      <translation>请关闭其他使用显卡的程序，或允许使用更少的显存。</translation>
    </message>
    <message>
      <source>Close other programs that use the GPU, or run the model on the processor.</source>
      <translation>请关闭其他使用显卡的程序，或用处理器运行模型。</translation>
    </message>
    <message>
      <source>Close other programs, and load it again.</source>
      <translation>请关闭其他程序，然后重新加载。</translation>
    </message>
    <message>
      <source>Close other programs, or choose a shorter context.</source>
      <translation>请关闭其他程序，或选择更短的上下文。</translation>
    </message>
    <message>
      <source>Close the other program, or change the file's permissions.</source>
      <translation>请关闭那个程序，或修改文件的权限。</translation>
    </message>
    <message>
      <source>Close the programs that use it, then try again.</source>
      <translation>请关闭正在使用它的程序，然后重试。</translation>
    </message>
    <message>
      <source>Compatibility engine: placement is per layer.</source>
      <translation>兼容引擎：按层放置。</translation>
    </message>
    <message>
      <source>Compiled kernels</source>
      <translation>编译好的内核</translation>
    </message>
    <message>
      <source>Copying to the device</source>
      <translation>正在复制到设备</translation>
    </message>
    <message>
      <source>Correct the grammar.</source>
      <translation>请更正语法。</translation>
    </message>
    <message>
      <source>Correct the template.</source>
      <translation>请更正模板。</translation>
    </message>
    <message>
      <source>Cut into {} pieces by another program. They are no GGUF files before they are joined; look for a repository with files named …-00001-of-… instead.</source>
      <translation>被其他程序切成了 {0} 块。合并之前它们不是 GGUF 文件；请寻找文件名形如 …-00001-of-… 的仓库。</translation>
    </message>
    <message>
      <source>Data folder</source>
      <translation>数据文件夹</translation>
    </message>
    <message>
      <source>Delete or rename the one that is there.</source>
      <translation>请删除或重命名已在那里的文件。</translation>
    </message>
    <message>
      <source>Did you mean: {}?</source>
      <translation>您是否要找：{0}？</translation>
    </message>
    <message>
      <source>Download a newer conversion of the model.</source>
      <translation>请下载该模型较新的转换版本。</translation>
    </message>
    <message>
      <source>Download a newer conversion of this model, in which the experts are stacked.</source>
      <translation>请下载该模型较新的转换版本，其中各专家已堆叠在一起。</translation>
    </message>
    <message>
      <source>Download it again.</source>
      <translation>请重新下载。</translation>
    </message>
    <message>
      <source>Download the file again, or choose another conversion of this model.</source>
      <translation>请重新下载该文件，或选择该模型的其他转换版本。</translation>
    </message>
    <message>
      <source>Download the file again, or delete it.</source>
      <translation>请重新下载该文件，或将其删除。</translation>
    </message>
    <message>
      <source>Download the file again.</source>
      <translation>请重新下载该文件。</translation>
    </message>
    <message>
      <source>Download the missing parts into the same folder.</source>
      <translation>请将缺少的部分下载到同一文件夹。</translation>
    </message>
    <message>
      <source>Enter a new one: the key under Library, Discover.</source>
      <translation>请通过“模型库 → 发现”中的钥匙按钮填写新的令牌。</translation>
    </message>
    <message>
      <source>Even a context of {} tokens</source>
      <translation>即使只用 {0} 个词元的上下文</translation>
    </message>
    <message>
      <source>Even without older messages {} tokens are needed, and the context holds {}.</source>
      <translation>即使不带较早的消息也需要 {} 个词元，而上下文只能容纳 {} 个。</translation>
    </message>
    <message>
      <source>Everything else goes on, and what was written so far is kept.</source>
      <translation>其他一切照常，已写出的内容也已保留。</translation>
    </message>
    <message>
      <source>Everything that gains from the GPU is on it; more memory would buy nothing.</source>
      <translation>所有能从 GPU 获益的部分都已在其上；更多显存不会带来提升。</translation>
    </message>
    <message>
      <source>Experts are stored one by one: an old conversion; a newer one is needed.</source>
      <translation>各专家是逐个存放的：这是旧的转换版本，需要较新的版本。</translation>
    </message>
    <message>
      <source>Experts of layer {} are pinned to the GPU, and their router to RAM.</source>
      <translation>第 {0} 层的专家被固定到 GPU，而其路由被固定到内存。</translation>
    </message>
    <message>
      <source>Feed-forward blocks in RAM come over the link for a prompt where that is faster: {} × {} are lent to those under way by blocks that are on the GPU while an answer is written, unless others come faster so then, too.</source>
      <translation>内存中的前馈块会在更快的情况下经由总线传来供处理提示词：生成回答时位于 GPU 上的块为传输中的块让出 {} × {}；若生成回答时让其他块传来也更快，则同样让出。</translation>
    </message>
    <message>
      <source>Feed-forward blocks in RAM come over the link for a step where that is faster: {} × {} are kept for those under way.</source>
      <translation>内存中的前馈块会在更快的情况下经由总线传来供单步使用：为传输中的块预留 {} × {}。</translation>
    </message>
    <message>
      <source>Free some space or choose another models folder, then resume.</source>
      <translation>请腾出一些空间或选择其他模型文件夹，然后继续。</translation>
    </message>
    <message>
      <source>Free some space, or choose another models folder.</source>
      <translation>请腾出一些空间，或选择其他模型文件夹。</translation>
    </message>
    <message>
      <source>Free some space, then install it again.</source>
      <translation>请腾出一些空间，然后重新安装。</translation>
    </message>
    <message>
      <source>GPU + RAM</source>
      <translation>GPU + 内存</translation>
    </message>
    <message>
      <source>GPU readings</source>
      <translation>GPU 读数</translation>
    </message>
    <message>
      <source>GPU support</source>
      <translation>GPU 支持</translation>
    </message>
    <message>
      <source>GPU support could not be unpacked to {}: {}.</source>
      <translation>GPU 支持无法解压到 {0}：{1}。</translation>
    </message>
    <message>
      <source>Good at code and reasoning; an 8 GB graphics card would hold it whole.</source>
      <translation>擅长代码与推理；8 GB 显卡可完整容纳它。</translation>
    </message>
    <message>
      <source>Hub cache</source>
      <translation>模型中心缓存</translation>
    </message>
    <message>
      <source>In use</source>
      <translation>使用中</translation>
    </message>
    <message>
      <source>Install GPU support under Settings, Help.</source>
      <translation>请在“设置”的“帮助”中安装 GPU 支持。</translation>
    </message>
    <message>
      <source>Install Tessera again.</source>
      <translation>请重新安装 Tessera。</translation>
    </message>
    <message>
      <source>Install a newer NVIDIA driver, or nvidia-cuda-nvrtc-cu12.</source>
      <translation>请安装更新的 NVIDIA 驱动，或安装 nvidia-cuda-nvrtc-cu12。</translation>
    </message>
    <message>
      <source>Install a newer NVIDIA driver.</source>
      <translation>请安装更新的 NVIDIA 驱动。</translation>
    </message>
    <message>
      <source>Install it again.</source>
      <translation>请重新安装。</translation>
    </message>
    <message>
      <source>Interrupted. Resume when you like.</source>
      <translation>已中断。可随时继续。</translation>
    </message>
    <message>
      <source>Is this address a hub? See Settings, Network.</source>
      <translation>该地址是模型中心吗？请查看“设置 → 网络”。</translation>
    </message>
    <message>
      <source>It goes when Tessera is removed.</source>
      <translation>卸载 Tessera 时会一并移除。</translation>
    </message>
    <message>
      <source>It holds {}.</source>
      <translation>其中为{0}。</translation>
    </message>
    <message>
      <source>It is a projector for images or sound, to be used beside a model; alone it cannot chat.</source>
      <translation>这是用于图像或声音的投影器，需与模型一起使用；单独无法对话。</translation>
    </message>
    <message>
      <source>It is split between GPU and RAM.</source>
      <translation>由 GPU 和内存共同承载。</translation>
    </message>
    <message>
      <source>It is still in your library.</source>
      <translation>它仍在您的模型库中。</translation>
    </message>
    <message>
      <source>It may run on the compatibility engine (llama.cpp), without a plan and on the processor.</source>
      <translation>也许可以用兼容引擎（llama.cpp）运行：没有放置计划，只用处理器。</translation>
    </message>
    <message>
      <source>It may run on the compatibility engine.</source>
      <translation>也许可以用兼容引擎运行。</translation>
    </message>
    <message>
      <source>It may run on the compatibility engine; files in Q4_K_M or Q8_0 run natively.</source>
      <translation>也许可以用兼容引擎运行；Q4_K_M 或 Q8_0 的文件可由原生引擎运行。</translation>
    </message>
    <message>
      <source>It runs on the compatibility engine: placement is per layer.</source>
      <translation>它以兼容引擎运行：按层放置。</translation>
    </message>
    <message>
      <source>It runs on the processor.</source>
      <translation>由处理器运行。</translation>
    </message>
    <message>
      <source>It was kept as {} beside a new, empty one.</source>
      <translation>它已保存为 {0}，旁边新建了一个空文件。</translation>
    </message>
    <message>
      <source>It was not added to your models.</source>
      <translation>它没有被加入您的模型。</translation>
    </message>
    <message>
      <source>It was not attached.</source>
      <translation>它没有被附加。</translation>
    </message>
    <message>
      <source>It was tried in a process of its own, so nothing else was affected.</source>
      <translation>这是在单独的进程中尝试的，因此其他部分不受影响。</translation>
    </message>
    <message>
      <source>It was written anew, with all conversations of this session; the other one was kept as {}.</source>
      <translation>已重新写入本次会话的所有对话；另一个文件已保留为 {}。</translation>
    </message>
    <message>
      <source>It was written anew, with all conversations.</source>
      <translation>已重新写入，包含所有对话。</translation>
    </message>
    <message>
      <source>Keys of an unknown kind: {}{}.</source>
      <translation>未知种类的键：{0}{1}。</translation>
    </message>
    <message>
      <source>Known are {}, each with a size where it has memory of its own: emulated:256MiB.</source>
      <translation>已知的有 {0}，若自带内存可注明大小：emulated:256MiB。</translation>
    </message>
    <message>
      <source>LM Studio</source>
      <translation>LM Studio</translation>
    </message>
    <message>
      <source>Left to the compatibility engine: {}</source>
      <translation>交由兼容引擎：{0}</translation>
    </message>
    <message>
      <source>Load it again with a device.</source>
      <translation>请连同设备一起重新加载。</translation>
    </message>
    <message>
      <source>Load the model again with another budget.</source>
      <translation>请用其他预算重新加载模型。</translation>
    </message>
    <message>
      <source>Load the model again; if that fails, download the file again.</source>
      <translation>请重新加载模型；如果失败，请重新下载该文件。</translation>
    </message>
    <message>
      <source>Loaded now.</source>
      <translation>已加载。</translation>
    </message>
    <message>
      <source>Loading weights</source>
      <translation>正在加载权重</translation>
    </message>
    <message>
      <source>Look for the model under Discover.</source>
      <translation>请在“发现”中查找该模型。</translation>
    </message>
    <message>
      <source>Missing; needed for {}.</source>
      <translation>缺失；{}需要它。</translation>
    </message>
    <message>
      <source>Models run on the processor.</source>
      <translation>模型在处理器上运行。</translation>
    </message>
    <message>
      <source>Models run on the processor. With an NVIDIA GPU, install its driver from nvidia.com.</source>
      <translation>模型在处理器上运行。如有 NVIDIA GPU，请从 nvidia.com 安装驱动。</translation>
    </message>
    <message>
      <source>NVIDIA GPU</source>
      <translation>NVIDIA GPU</translation>
    </message>
    <message>
      <source>NVML answered with error {}.</source>
      <translation>NVML 返回错误 {0}。</translation>
    </message>
    <message>
      <source>NVML: {}</source>
      <translation>NVML: {0}</translation>
    </message>
    <message>
      <source>Name a file in a folder with free space that can be written to.</source>
      <translation>请指定一个可写入且有可用空间的文件夹中的文件。</translation>
    </message>
    <message>
      <source>Needs {} GiB more RAM</source>
      <translation>还需 {0} GiB 内存</translation>
    </message>
    <message>
      <source>Needs {} more RAM</source>
      <translation>还需 {0} 内存</translation>
    </message>
    <message>
      <source>Next try in {} s.</source>
      <translation>将在 {0} 秒后重试。</translation>
    </message>
    <message>
      <source>No NVIDIA driver is installed.</source>
      <translation>没有安装 NVIDIA 驱动程序。</translation>
    </message>
    <message>
      <source>No device has as much memory as {}.</source>
      <translation>没有哪个设备有 {0} 这么多内存。</translation>
    </message>
    <message>
      <source>No display.</source>
      <translation>没有显示器。</translation>
    </message>
    <message>
      <source>No end-of-text token is named: answers may run on.</source>
      <translation>没有指明文本结束词元：回答可能停不下来。</translation>
    </message>
    <message>
      <source>No model is loaded.</source>
      <translation>没有加载模型。</translation>
    </message>
    <message>
      <source>No trace can be written to {}: {}.</source>
      <translation>无法将跟踪写入 {0}：{1}。</translation>
    </message>
    <message>
      <source>No {} named “{}” is in the catalogue.</source>
      <translation>目录中没有名为“{1}”的 {0}。</translation>
    </message>
    <message>
      <source>Not a model</source>
      <translation>不是模型</translation>
    </message>
    <message>
      <source>Not asked for by the owner.</source>
      <translation>不是用户要求的。</translation>
    </message>
    <message>
      <source>Not measured but of its datasheet: {}.</source>
      <translation>未实测、取自产品规格：{0}。</translation>
    </message>
    <message>
      <source>Nothing was changed.</source>
      <translation>未做任何更改。</translation>
    </message>
    <message>
      <source>Nothing was deleted.</source>
      <translation>未删除任何内容。</translation>
    </message>
    <message>
      <source>Nothing was deleted; what is already here stays.</source>
      <translation>未删除任何内容；已有的部分会保留。</translation>
    </message>
    <message>
      <source>Nothing was exported.</source>
      <translation>未导出任何内容。</translation>
    </message>
    <message>
      <source>Nothing was generated and nothing was removed.</source>
      <translation>未生成任何内容，也未移除任何内容。</translation>
    </message>
    <message>
      <source>Nothing was generated, because the answer would not follow it.</source>
      <translation>未生成任何内容，因为回答将不符合它。</translation>
    </message>
    <message>
      <source>Nothing was generated.</source>
      <translation>未生成任何内容。</translation>
    </message>
    <message>
      <source>Nothing was imported.</source>
      <translation>未导入任何内容。</translation>
    </message>
    <message>
      <source>Nothing was loaded.</source>
      <translation>未加载任何内容。</translation>
    </message>
    <message>
      <source>Nothing was moved.</source>
      <translation>未移动任何内容。</translation>
    </message>
    <message>
      <source>Nothing was planned.</source>
      <translation>未做任何规划。</translation>
    </message>
    <message>
      <source>Nothing was sent.</source>
      <translation>未发送任何内容。</translation>
    </message>
    <message>
      <source>Offline mode is on, so nothing was asked of the network.</source>
      <translation>离线模式已开启，因此没有访问网络。</translation>
    </message>
    <message>
      <source>One GiB more would buy nothing.</source>
      <translation>再多 1 GiB 不会带来提升。</translation>
    </message>
    <message>
      <source>One GiB more {}would give {} instead of {} tok/s.</source>
      <translation>{0}再多 1 GiB，速度将由 {2} 提升到 {1} 词元/秒。</translation>
    </message>
    <message>
      <source>Open any page in a browser to sign in, then resume.</source>
      <translation>请在浏览器中打开任意网页以登录，然后继续。</translation>
    </message>
    <message>
      <source>Open the repository again.</source>
      <translation>请重新打开该仓库。</translation>
    </message>
    <message>
      <source>Our own engine cannot compute this model: {}.</source>
      <translation>我们自己的引擎无法计算该模型：{0}。</translation>
    </message>
    <message>
      <source>Pause the downloads, then move the folder.</source>
      <translation>请先暂停下载，再移动文件夹。</translation>
    </message>
    <message>
      <source>Plan for a card of the catalogue: --gpu NAME.</source>
      <translation>请为目录中的显卡规划：--gpu 名称。</translation>
    </message>
    <message>
      <source>Planned with the rates of {}; it computes on the CPU.</source>
      <translation>按 {0} 的速率规划；实际由 CPU 计算。</translation>
    </message>
    <message>
      <source>Please report this.</source>
      <translation>请报告此问题。</translation>
    </message>
    <message>
      <source>Please save the log and report it.</source>
      <translation>请保存日志并报告该问题。</translation>
    </message>
    <message>
      <source>Prefetched weights</source>
      <translation>预取的权重</translation>
    </message>
    <message>
      <source>Preparing the computation</source>
      <translation>正在准备计算</translation>
    </message>
    <message>
      <source>Products of these types count as those of the nearest one: {}.</source>
      <translation>以下类型的乘法按最接近的类型计算：{0}。</translation>
    </message>
    <message>
      <source>Raise the budget, or take a pin away.</source>
      <translation>请提高预算，或取消一个固定。</translation>
    </message>
    <message>
      <source>Reading the header</source>
      <translation>正在读取文件头</translation>
    </message>
    <message>
      <source>Reading the vocabulary</source>
      <translation>正在读取词表</translation>
    </message>
    <message>
      <source>Reads only 3.6B of its 21B parameters per token: quick for its size, in RAM too.</source>
      <translation>每个词元只读取 21B 参数中的 3.6B：就其规模而言很快，在内存中也是如此。</translation>
    </message>
    <message>
      <source>Resume the download.</source>
      <translation>请继续下载。</translation>
    </message>
    <message>
      <source>Resume to download it again.</source>
      <translation>继续即可重新下载。</translation>
    </message>
    <message>
      <source>Run `make run` (from source) or install Tessera again.</source>
      <translation>请运行 `make run`（从源代码）或重新安装 Tessera。</translation>
    </message>
    <message>
      <source>Run `make run`, which builds them.</source>
      <translation>请运行 `make run`，它会构建内核。</translation>
    </message>
    <message>
      <source>Run `ollama rm {}`.</source>
      <translation>请运行 `ollama rm {0}`。</translation>
    </message>
    <message>
      <source>Run text recognition on it first.</source>
      <translation>请先对它进行文字识别。</translation>
    </message>
    <message>
      <source>Runs in RAM</source>
      <translation>在内存中运行</translation>
    </message>
    <message>
      <source>Runs on the GPU</source>
      <translation>在 GPU 上运行</translation>
    </message>
    <message>
      <source>Sampler setting {} is {}; it must lie between {} and {}.</source>
      <translation>采样设置 {0} 为 {1}；必须介于 {2} 和 {3} 之间。</translation>
    </message>
    <message>
      <source>Save it anew without a password, or attach its text.</source>
      <translation>请去掉密码后另存，或附加其文本。</translation>
    </message>
    <message>
      <source>See what `tessera doctor` says.</source>
      <translation>请查看 `tessera doctor` 的输出。</translation>
    </message>
    <message>
      <source>Shard {} of {} is missing.</source>
      <translation>缺少第 {0} 个分片（共 {1} 个）。</translation>
    </message>
    <message>
      <source>Shorten it.</source>
      <translation>请缩短它。</translation>
    </message>
    <message>
      <source>Shorten or remove that part.</source>
      <translation>请缩短或删除该部分。</translation>
    </message>
    <message>
      <source>Something is pinned to the GPU and to RAM at once.</source>
      <translation>有内容同时被固定到 GPU 和内存。</translation>
    </message>
    <message>
      <source>Something unexpected went wrong.</source>
      <translation>发生了意外错误。</translation>
    </message>
    <message>
      <source>Something unexpected went wrong: {}</source>
      <translation>发生了意外错误：{0}</translation>
    </message>
    <message>
      <source>Start Tessera from a desktop session; without one it chats in the terminal.</source>
      <translation>请从桌面会话启动 Tessera；否则它在终端中聊天。</translation>
    </message>
    <message>
      <source>Starting the compatibility engine</source>
      <translation>正在启动兼容引擎</translation>
    </message>
    <message>
      <source>Summaries and rewriting in a gigabyte of memory.</source>
      <translation>用 1 GB 内存即可完成摘要与改写。</translation>
    </message>
    <message>
      <source>Switch it off under Settings, Privacy (or unset HF_HUB_OFFLINE) to search and download.</source>
      <translation>请在“设置 → 隐私”中关闭它（或取消设置 HF_HUB_OFFLINE），以便搜索和下载。</translation>
    </message>
    <message>
      <source>Take one of these pins away.</source>
      <translation>请取消其中一个固定。</translation>
    </message>
    <message>
      <source>Tensor {} is of {}; the file was made for a newer or different engine.</source>
      <translation>张量 {0} 的类型为 {1}；该文件是为较新或其他引擎制作的。</translation>
    </message>
    <message>
      <source>Tessera's native kernels are older than its source: they lack {}.</source>
      <translation>Tessera 的本机内核比源代码旧：缺少 {}。</translation>
    </message>
    <message>
      <source>Tessera's native kernels cannot be loaded: {}.</source>
      <translation>无法加载 Tessera 的本机内核：{}。</translation>
    </message>
    <message>
      <source>Tessera's own kernels do not know the type of some tensors: {}.</source>
      <translation>Tessera 自己的内核不支持某些张量的类型：{0}。</translation>
    </message>
    <message>
      <source>The CUDA context</source>
      <translation>CUDA 上下文</translation>
    </message>
    <message>
      <source>The GPU could not be opened for {}: {}.</source>
      <translation>无法为 {0} 打开显卡：{1}。</translation>
    </message>
    <message>
      <source>The GPU failed in the middle of a step: {}.</source>
      <translation>GPU 在计算途中出错：{}。</translation>
    </message>
    <message>
      <source>The GPU stays unused: {} go to its context and scratch before the first weight.</source>
      <translation>GPU 保持闲置：在放入第一份权重之前，其上下文与工作区就需要 {0}。</translation>
    </message>
    <message>
      <source>The JSON schema cannot be kept to: {}.</source>
      <translation>无法遵循该 JSON 模式：{0}。</translation>
    </message>
    <message>
      <source>The NVIDIA driver and its library differ in version; a restart usually helps.</source>
      <translation>NVIDIA 驱动程序与其库的版本不一致；通常重启即可解决。</translation>
    </message>
    <message>
      <source>The NVIDIA driver is installed but not loaded.</source>
      <translation>NVIDIA 驱动程序已安装但未加载。</translation>
    </message>
    <message>
      <source>The NVIDIA driver refuses access to this user.</source>
      <translation>NVIDIA 驱动程序拒绝该用户访问。</translation>
    </message>
    <message>
      <source>The NVIDIA driver reports no GPU.</source>
      <translation>NVIDIA 驱动程序没有报告任何 GPU。</translation>
    </message>
    <message>
      <source>The PDF {} could not be read: {}.</source>
      <translation>无法读取 PDF {0}：{1}。</translation>
    </message>
    <message>
      <source>The PDF {} holds pictures of pages and no text.</source>
      <translation>PDF {0} 只含页面图像，没有文本。</translation>
    </message>
    <message>
      <source>The answer so far was kept.</source>
      <translation>已保留到目前为止的回答。</translation>
    </message>
    <message>
      <source>The answer was ended here.</source>
      <translation>回答到此结束。</translation>
    </message>
    <message>
      <source>The answer was ended, and what it needed was stopped.</source>
      <translation>回答已结束，所用的进程已停止。</translation>
    </message>
    <message>
      <source>The answer was ended.</source>
      <translation>回答已结束。</translation>
    </message>
    <message>
      <source>The best small all-rounder: many languages, can think step by step.</source>
      <translation>最好的小型全能模型：支持多种语言，可逐步思考。</translation>
    </message>
    <message>
      <source>The budget of {} is more than {} can give: {} are used, and {} stay free.</source>
      <translation>预算 {0} 超过了 {1} 所能提供的：使用 {2}，保留 {3}。</translation>
    </message>
    <message>
      <source>The chat template failed{}: {}.</source>
      <translation>对话模板出错{0}：{1}。</translation>
    </message>
    <message>
      <source>The chat template leaves messages out.</source>
      <translation>对话模板遗漏了消息。</translation>
    </message>
    <message>
      <source>The check failed: {}</source>
      <translation>检查失败：{}</translation>
    </message>
    <message>
      <source>The compatibility engine cannot be held to a RAM budget.</source>
      <translation>兼容引擎无法遵守内存预算。</translation>
    </message>
    <message>
      <source>The compatibility engine cannot move a model between devices while it runs.</source>
      <translation>兼容引擎在运行时无法在设备之间移动模型。</translation>
    </message>
    <message>
      <source>The compatibility engine stopped {} ({}).</source>
      <translation>兼容引擎{0}停止了（{1}）。</translation>
    </message>
    <message>
      <source>The connection ended early.</source>
      <translation>连接提前结束。</translation>
    </message>
    <message>
      <source>The context ends at {} tokens, as the model turns its heads otherwise for longer ones: choose up to {} where you need them.</source>
      <translation>上下文到 {0} 个词元为止，因为更长时模型以另一种方式旋转注意力头：需要时可选择至多 {1} 个。</translation>
    </message>
    <message>
      <source>The context is kept in 16 bits: this model's heads of {} numbers do not fit 8 bits.</source>
      <translation>上下文以 16 位保存：此模型的注意力头有 {0} 个数，不能以 8 位保存。</translation>
    </message>
    <message>
      <source>The context is {} of {} tokens, because {} of memory are free.</source>
      <translation>上下文为 {0} 个词元（模型为 {1}），因为可用内存为 {2}。</translation>
    </message>
    <message>
      <source>The context is {} of {} tokens, to keep within the RAM budget.</source>
      <translation>上下文为 {0} 个词元（模型为 {1}），以不超出内存预算。</translation>
    </message>
    <message>
      <source>The context memory has {} free blocks, and {} are needed.</source>
      <translation>上下文内存有 {0} 个空闲块，而需要 {1} 个。</translation>
    </message>
    <message>
      <source>The context's memory is full.</source>
      <translation>上下文内存已满。</translation>
    </message>
    <message>
      <source>The conversation goes on. Try a smaller change, or a larger budget.</source>
      <translation>对话会继续。请尝试较小的改动，或更大的预算。</translation>
    </message>
    <message>
      <source>The conversation needs {} tokens, and the context holds {}.</source>
      <translation>对话需要 {0} 个词元，而上下文只能容纳 {1} 个。</translation>
    </message>
    <message>
      <source>The conversations cannot be saved: {}.</source>
      <translation>无法保存对话：{0}。</translation>
    </message>
    <message>
      <source>The conversations file {} cannot be used: {}.</source>
      <translation>无法使用对话文件 {0}：{1}。</translation>
    </message>
    <message>
      <source>The conversations file {} is damaged: {}.</source>
      <translation>对话文件 {0} 已损坏：{1}。</translation>
    </message>
    <message>
      <source>The conversations file {} was replaced by another one while Tessera used it.</source>
      <translation>对话文件 {} 在 Tessera 使用期间被另一个文件替换了。</translation>
    </message>
    <message>
      <source>The conversations file {} was taken away while Tessera used it.</source>
      <translation>对话文件 {} 在 Tessera 使用时被移走了。</translation>
    </message>
    <message>
      <source>The conversations in {} were written by a newer version of Tessera (schema {}).</source>
      <translation>{0} 中的对话由较新版本的 Tessera 写入（结构版本 {1}）。</translation>
    </message>
    <message>
      <source>The damaged file {} could not be set aside.</source>
      <translation>无法将损坏的文件 {0} 移到一旁。</translation>
    </message>
    <message>
      <source>The download is probably incomplete: resume it or download the file again.</source>
      <translation>下载可能不完整：请继续下载或重新下载该文件。</translation>
    </message>
    <message>
      <source>The driver gave no memory for {}: {}.</source>
      <translation>驱动没有为 {0} 分配显存：{1}。</translation>
    </message>
    <message>
      <source>The driver of {} cannot map memory in pieces.</source>
      <translation>{0} 的驱动不能分块映射显存。</translation>
    </message>
    <message>
      <source>The emulated device's share of a step failed: {}.</source>
      <translation>模拟设备负责的部分计算失败：{0}。</translation>
    </message>
    <message>
      <source>The engine was stopped.</source>
      <translation>引擎已停止。</translation>
    </message>
    <message>
      <source>The file does not say which architecture it is of.</source>
      <translation>该文件没有说明属于哪种架构。</translation>
    </message>
    <message>
      <source>The file holds {}, which neither our engine nor llama.cpp can run. Choose another file.</source>
      <translation>该文件包含{0}，我们的引擎和 llama.cpp 都无法运行。请选择其他文件。</translation>
    </message>
    <message>
      <source>The file host refused the hub's link (status {}).</source>
      <translation>文件主机拒绝了模型中心给出的链接（状态 {0}）。</translation>
    </message>
    <message>
      <source>The file host refused the request (status {}).</source>
      <translation>文件主机拒绝了请求（状态 {0}）。</translation>
    </message>
    <message>
      <source>The file may be damaged; download it again, or choose another quantization.</source>
      <translation>该文件可能已损坏；请重新下载，或选择其他量化版本。</translation>
    </message>
    <message>
      <source>The file was left untouched.</source>
      <translation>该文件未被改动。</translation>
    </message>
    <message>
      <source>The folder {} cannot be used: {}.</source>
      <translation>无法使用文件夹 {0}：{1}。</translation>
    </message>
    <message>
      <source>The grammar allows no further token, and this vocabulary cannot end the answer here.</source>
      <translation>语法不再允许任何词元，而该词表也无法在此结束回答。</translation>
    </message>
    <message>
      <source>The grammar cannot be used: {}.</source>
      <translation>无法使用该语法：{0}。</translation>
    </message>
    <message>
      <source>The grammar takes too long to follow from here.</source>
      <translation>从这里开始，遵循语法所需的时间过长。</translation>
    </message>
    <message>
      <source>The header speaks of {} layers, and tensors of {} are there.</source>
      <translation>文件头声明 {0} 层，而实际有 {1} 层的张量。</translation>
    </message>
    <message>
      <source>The hub asks to wait {} before the next request.</source>
      <translation>模型中心要求等待 {0} 再发出下一个请求。</translation>
    </message>
    <message>
      <source>The hub redirects in a circle.</source>
      <translation>模型中心的重定向形成了循环。</translation>
    </message>
    <message>
      <source>The hub redirects to {}://, which is not safe.</source>
      <translation>模型中心重定向到 {0}://，这不安全。</translation>
    </message>
    <message>
      <source>The hub refused the access token: it is wrong, expired or may not read this.</source>
      <translation>模型中心拒绝了访问令牌：它有误、已过期，或无权读取此内容。</translation>
    </message>
    <message>
      <source>The hub says that {} is empty.</source>
      <translation>模型中心说 {0} 是空的。</translation>
    </message>
    <message>
      <source>The key {} says {}, the tensors say {}; the tensors are right.</source>
      <translation>键 {0} 的值为 {1}，张量显示为 {2}；以张量为准。</translation>
    </message>
    <message>
      <source>The largest here, for a computer with 64 GB of RAM and more; reads 5.1B parameters per token.</source>
      <translation>这里最大的模型，适合内存 64 GB 以上的计算机；每个词元读取 5.1B 参数。</translation>
    </message>
    <message>
      <source>The last {} of {} layers only predict further tokens; they are not used.</source>
      <translation>{1} 层中最后 {0} 层仅用于预测后续词元，不会使用。</translation>
    </message>
    <message>
      <source>The load was cancelled.</source>
      <translation>加载已取消。</translation>
    </message>
    <message>
      <source>The model is split into {} files, and {} of them are missing: {}{}.</source>
      <translation>该模型分为 {0} 个文件，其中缺少 {1} 个：{2}{3}。</translation>
    </message>
    <message>
      <source>The model is {}, and {} of memory are free: parts of it will be read from disk again and again, and answers will be slow.</source>
      <translation>模型为 {0}，而可用内存为 {1}：其中一部分会被反复从磁盘读取，回答会很慢。</translation>
    </message>
    <message>
      <source>The model runs on the processor.</source>
      <translation>模型由处理器运行。</translation>
    </message>
    <message>
      <source>The model was loaded for the processor alone.</source>
      <translation>模型加载时只使用处理器。</translation>
    </message>
    <message>
      <source>The model was loaded without the pins.</source>
      <translation>模型已载入，但未采用固定项。</translation>
    </message>
    <message>
      <source>The model was not loaded.</source>
      <translation>模型未加载。</translation>
    </message>
    <message>
      <source>The model was trained for {} tokens of context; answers beyond may be poor.</source>
      <translation>该模型按 {0} 个词元的上下文训练；超出后的回答可能较差。</translation>
    </message>
    <message>
      <source>The model's output is not a number, so no token can be chosen.</source>
      <translation>模型的输出不是数字，因此无法选择词元。</translation>
    </message>
    <message>
      <source>The models folder could not be moved: {}.</source>
      <translation>无法移动模型文件夹：{0}。</translation>
    </message>
    <message>
      <source>The native kernels are not built.</source>
      <translation>尚未构建原生内核。</translation>
    </message>
    <message>
      <source>The placement before is in effect again.</source>
      <translation>之前的放置方式已恢复。</translation>
    </message>
    <message>
      <source>The pre-tokenizer is missing: an old conversion, whose text may be split wrongly.</source>
      <translation>缺少预分词器：这是旧的转换版本，其文本可能被错误切分。</translation>
    </message>
    <message>
      <source>The pre-tokenizer is “default”: an old conversion, whose text may be split wrongly.</source>
      <translation>预分词器为“default”：这是旧的转换版本，其文本可能被错误切分。</translation>
    </message>
    <message>
      <source>The presets in {} could not be read ({}); only the built-in ones are there.</source>
      <translation>无法读取 {0} 中的预设（{1}）；只有内置预设可用。</translation>
    </message>
    <message>
      <source>The probe</source>
      <translation>硬件测量</translation>
    </message>
    <message>
      <source>The process that downloads has ended.</source>
      <translation>下载进程已结束。</translation>
    </message>
    <message>
      <source>The process that follows the grammar has ended.</source>
      <translation>跟踪语法的进程已结束。</translation>
    </message>
    <message>
      <source>The processor has no memory of its own to be limited.</source>
      <translation>处理器没有可限制的独立内存。</translation>
    </message>
    <message>
      <source>The processor's share of a step failed: {}.</source>
      <translation>处理器负责的部分计算失败：{0}。</translation>
    </message>
    <message>
      <source>The prompt is empty.</source>
      <translation>提示为空。</translation>
    </message>
    <message>
      <source>The rest now runs on the CPU.</source>
      <translation>其余部分现由 CPU 运行。</translation>
    </message>
    <message>
      <source>The server announced {} bytes where {} were due.</source>
      <translation>服务器声明为 {0} 字节，而应为 {1} 字节。</translation>
    </message>
    <message>
      <source>The server compressed the file although it was told not to.</source>
      <translation>尽管已要求不压缩，服务器仍压缩了文件。</translation>
    </message>
    <message>
      <source>The server says that the file has no such part.</source>
      <translation>服务器说该文件没有这一部分。</translation>
    </message>
    <message>
      <source>The server sends next to nothing.</source>
      <translation>服务器几乎不发送数据。</translation>
    </message>
    <message>
      <source>The server sent a part of the file and did not say which one.</source>
      <translation>服务器发送了文件的一部分，却没有说明是哪一部分。</translation>
    </message>
    <message>
      <source>The server sent bytes {} to {} when asked for {} to {}.</source>
      <translation>请求的是字节 {2} 至 {3}，服务器却发送了字节 {0} 至 {1}。</translation>
    </message>
    <message>
      <source>The server's answer contradicts itself (status {}, range {}).</source>
      <translation>服务器的答复自相矛盾（状态 {0}，范围 {1}）。</translation>
    </message>
    <message>
      <source>The setting “{}” in {} is unknown to this version.</source>
      <translation>该版本不认识 {1} 中的设置“{0}”。</translation>
    </message>
    <message>
      <source>The settings in {} are not a table: defaults are used.</source>
      <translation>{0} 中的设置不是表格：将使用默认值。</translation>
    </message>
    <message>
      <source>The settings in {} could not be read ({}): defaults are used.</source>
      <translation>无法读取 {0} 中的设置（{1}）：将使用默认值。</translation>
    </message>
    <message>
      <source>The speed of {} could not be measured: it is from its datasheet.</source>
      <translation>无法测量 {0} 的速度：数值取自产品规格。</translation>
    </message>
    <message>
      <source>The speed of {} is not measured: it is from {}.</source>
      <translation>{0} 的速度未经测量，来自：{1}。</translation>
    </message>
    <message>
      <source>The speed of {} is taken from its datasheet, not measured.</source>
      <translation>{0} 的速度取自产品规格，并非实测。</translation>
    </message>
    <message>
      <source>The speed of {} was measured here.</source>
      <translation>{0} 的速度已在本机实测。</translation>
    </message>
    <message>
      <source>The starter model's big sister: open data, open recipe, good English.</source>
      <translation>入门模型的大姐：数据开放、配方开放、英语良好。</translation>
    </message>
    <message>
      <source>The system pins no memory, so copies to the GPU are slower than its link.</source>
      <translation>系统不允许锁定内存，因此向显卡的复制慢于总线速度。</translation>
    </message>
    <message>
      <source>The tensor “{}” is of type {}, which our own engine cannot compute with.</source>
      <translation>张量“{0}”的类型为 {1}，我们自己的引擎无法计算。</translation>
    </message>
    <message>
      <source>The text holds a run of {} characters without a break, which is too long to tokenize.</source>
      <translation>文本中有一段 {0} 个字符没有间断，太长而无法分词。</translation>
    </message>
    <message>
      <source>The text is too long to tokenize.</source>
      <translation>文本太长，无法分词。</translation>
    </message>
    <message>
      <source>The token could not be kept: {}.</source>
      <translation>无法保存令牌：{0}。</translation>
    </message>
    <message>
      <source>The unfinished file of {} was removed by another program.</source>
      <translation>{0} 的未完成文件被其他程序删除了。</translation>
    </message>
    <message>
      <source>The vocabulary of {} cannot be read: {}.</source>
      <translation>无法读取 {0} 的词表：{1}。</translation>
    </message>
    <message>
      <source>The vocabulary of {} could not be checked ({}).</source>
      <translation>无法检查 {} 的词表（{}）。</translation>
    </message>
    <message>
      <source>The volume of {} cannot hold a file of this size (FAT32 ends at 4 GiB).</source>
      <translation>{0} 所在的卷容纳不下这么大的文件（FAT32 上限为 4 GiB）。</translation>
    </message>
    <message>
      <source>The {} is {}; {}.</source>
      <translation>{0}为 {1}；{2}。</translation>
    </message>
    <message>
      <source>There is no NVIDIA driver.</source>
      <translation>没有 NVIDIA 驱动。</translation>
    </message>
    <message>
      <source>There is no chat template: a plain one is used, and a base model may not answer as an assistant.</source>
      <translation>没有对话模板：将使用简单模板，基础模型可能不会像助手那样回答。</translation>
    </message>
    <message>
      <source>There is no device called “{}”.</source>
      <translation>没有名为“{0}”的设备。</translation>
    </message>
    <message>
      <source>There is no memory left to compute {} tokens at once.</source>
      <translation>没有足够的内存一次计算 {0} 个词元。</translation>
    </message>
    <message>
      <source>There is no memory left.</source>
      <translation>内存已用尽。</translation>
    </message>
    <message>
      <source>There is no room for GPU support in {}: {}, {} MB are free.</source>
      <translation>{0} 中没有足够的空间安装 GPU 支持：{1}，剩余 {2} MB。</translation>
    </message>
    <message>
      <source>There is no tokenizer in the file.</source>
      <translation>该文件中没有分词器。</translation>
    </message>
    <message>
      <source>They are kept in memory, and saving is tried again and again.</source>
      <translation>它们保留在内存中，并会不断重试保存。</translation>
    </message>
    <message>
      <source>This file is a {}, no model.</source>
      <translation>该文件是{0}，不是模型。</translation>
    </message>
    <message>
      <source>This machine has {}.</source>
      <translation>本机有 {0}。</translation>
    </message>
    <message>
      <source>This model carries no chat template; {} is used instead.</source>
      <translation>该模型没有对话模板；改用 {0}。</translation>
    </message>
    <message>
      <source>This model has no system role; the system prompt was put before the first message.</source>
      <translation>该模型没有系统角色；系统提示已放到第一条消息之前。</translation>
    </message>
    <message>
      <source>This model has no tool role; tool results were passed as the user's messages.</source>
      <translation>该模型没有工具角色；工具结果已作为用户消息传递。</translation>
    </message>
    <message>
      <source>This model's template wants turns to alternate; neighbouring turns were joined.</source>
      <translation>该模型的模板要求轮流发言；相邻的发言已合并。</translation>
    </message>
    <message>
      <source>This one waits for it.</source>
      <translation>这里会等它完成。</translation>
    </message>
    <message>
      <source>This processor cannot run the instruction set “{}”.</source>
      <translation>该处理器无法运行指令集“{0}”。</translation>
    </message>
    <message>
      <source>This processor lacks AVX2; answers will be slow.</source>
      <translation>这个处理器缺少 AVX2，回答会很慢。</translation>
    </message>
    <message>
      <source>This session's conversations are kept in memory only.</source>
      <translation>本次会话的对话只保留在内存中。</translation>
    </message>
    <message>
      <source>This system has no keyring, so the token was put into a file that only your account can read: {}</source>
      <translation>该系统没有钥匙串，因此令牌保存在只有您的账户可读的文件中：{0}</translation>
    </message>
    <message>
      <source>This would fit: {}.</source>
      <translation>以下方式可以容纳：{0}。</translation>
    </message>
    <message>
      <source>Tiles of experts</source>
      <translation>专家分块</translation>
    </message>
    <message>
      <source>To move it or to put a backup in its place, close Tessera first.</source>
      <translation>要移动它或用备份替换它，请先关闭 Tessera。</translation>
    </message>
    <message>
      <source>To use the other one, close Tessera and put it in the file's place.</source>
      <translation>若要使用另一个文件，请关闭 Tessera 并用它替换该文件。</translation>
    </message>
    <message>
      <source>Trim the oldest messages, choose a longer context, or shorten the prompt.</source>
      <translation>请裁剪最早的消息、选择更长的上下文，或缩短提示。</translation>
    </message>
    <message>
      <source>Try again later.</source>
      <translation>请稍后重试。</translation>
    </message>
    <message>
      <source>Try again, or choose another folder.</source>
      <translation>请重试，或选择其他文件夹。</translation>
    </message>
    <message>
      <source>Try again.</source>
      <translation>请重试。</translation>
    </message>
    <message>
      <source>Try again. If it fails again, load the model again; if that fails too, restart Tessera.</source>
      <translation>请重试。若仍然出错，请重新加载模型；若还是不行，请重启 Tessera。</translation>
    </message>
    <message>
      <source>Type something first.</source>
      <translation>请先输入内容。</translation>
    </message>
    <message>
      <source>Unloading the model that runs now would make that {}.</source>
      <translation>卸载当前运行的模型后可达 {0}。</translation>
    </message>
    <message>
      <source>Unsupported: {}</source>
      <translation>不支持：{0}</translation>
    </message>
    <message>
      <source>Update Tessera, or choose a file in another quantisation.</source>
      <translation>请更新 Tessera，或选择其他量化的文件。</translation>
    </message>
    <message>
      <source>Update Tessera, or choose another conversion of this model.</source>
      <translation>请更新 Tessera，或选择该模型的其他转换版本。</translation>
    </message>
    <message>
      <source>Update Tessera, or start it with another data folder.</source>
      <translation>请更新 Tessera，或用其他数据文件夹启动。</translation>
    </message>
    <message>
      <source>Update Tessera.</source>
      <translation>请更新 Tessera。</translation>
    </message>
    <message>
      <source>Well known and even-tempered, with a context of 128k tokens.</source>
      <translation>知名而稳健，上下文为 128k 词元。</translation>
    </message>
    <message>
      <source>What came is no GGUF file (it begins with {}).</source>
      <translation>收到的不是 GGUF 文件（开头为 {0}）。</translation>
    </message>
    <message>
      <source>What is already here stays.</source>
      <translation>已有的部分会保留。</translation>
    </message>
    <message>
      <source>What is pinned to the GPU needs {} more than a budget of {} holds.</source>
      <translation>固定到 GPU 的内容比预算 {1} 所能容纳的还多 {0}。</translation>
    </message>
    <message>
      <source>What was computed from it was thrown away.</source>
      <translation>据此计算的内容已丢弃。</translation>
    </message>
    <message>
      <source>What was downloaded is kept.</source>
      <translation>已下载的内容会保留。</translation>
    </message>
    <message>
      <source>What was moved is whole, and so is what was not.</source>
      <translation>已移动的和未移动的都完好。</translation>
    </message>
    <message>
      <source>What was said is kept.</source>
      <translation>已说出的内容已保留。</translation>
    </message>
    <message>
      <source>What was said so far is kept.</source>
      <translation>到目前为止已说出的内容已保留。</translation>
    </message>
    <message>
      <source>With an NVIDIA GPU, install it from nvidia.com.</source>
      <translation>如有 NVIDIA 显卡，请从 nvidia.com 安装驱动。</translation>
    </message>
    <message>
      <source>Write --device cpu.</source>
      <translation>请写 --device cpu。</translation>
    </message>
    <message>
      <source>Write it as 256MiB or 6GiB.</source>
      <translation>请写成 256MiB 或 6GiB 的形式。</translation>
    </message>
    <message>
      <source>Write it as “{}” is written.</source>
      <translation>请按“{0}”的写法填写。</translation>
    </message>
    <message>
      <source>Write it with fewer optional or repeated parts that begin alike.</source>
      <translation>减少开头相同的可选或重复部分。</translation>
    </message>
    <message>
      <source>Writes well in European languages; a favourite for stories and dialogue.</source>
      <translation>擅长欧洲语言写作；常用于故事与对话。</translation>
    </message>
    <message>
      <source>a Git LFS pointer: the model itself was not downloaded</source>
      <translation>Git LFS 指针：模型本身没有下载</translation>
    </message>
    <message>
      <source>a big-endian file</source>
      <translation>大端序文件</translation>
    </message>
    <message>
      <source>a bool</source>
      <translation>布尔值</translation>
    </message>
    <message>
      <source>a bool of value {}</source>
      <translation>值为 {0} 的布尔值</translation>
    </message>
    <message>
      <source>a budget of {}</source>
      <translation>{0} 的预算</translation>
    </message>
    <message>
      <source>a context of {} tokens</source>
      <translation>{0} 个词元的上下文</translation>
    </message>
    <message>
      <source>a finite f32</source>
      <translation>有限的 f32</translation>
    </message>
    <message>
      <source>a message's content is no text</source>
      <translation>消息的内容不是文本</translation>
    </message>
    <message>
      <source>a quantisation of at most {} % of this file's size</source>
      <translation>不超过该文件大小 {0} % 的量化版本</translation>
    </message>
    <message>
      <source>a string</source>
      <translation>字符串</translation>
    </message>
    <message>
      <source>a u32 or an array of {}</source>
      <translation>u32 或 {0} 的数组</translation>
    </message>
    <message>
      <source>a web page</source>
      <translation>网页</translation>
    </message>
    <message>
      <source>a zip archive</source>
      <translation>zip 压缩包</translation>
    </message>
    <message>
      <source>all {} experts in RAM: no slots</source>
      <translation>全部 {0} 个专家都在内存中：没有槽位</translation>
    </message>
    <message>
      <source>all {} experts on the GPU</source>
      <translation>全部 {0} 个专家都在 GPU 上</translation>
    </message>
    <message>
      <source>an array of f32</source>
      <translation>f32 数组</translation>
    </message>
    <message>
      <source>an array of i32</source>
      <translation>i32 数组</translation>
    </message>
    <message>
      <source>an array of strings</source>
      <translation>字符串数组</translation>
    </message>
    <message>
      <source>an array of u32</source>
      <translation>u32 数组</translation>
    </message>
    <message>
      <source>an array of {}</source>
      <translation>{0} 的数组</translation>
    </message>
    <message>
      <source>an old GGML file, from before GGUF</source>
      <translation>GGUF 之前的旧 GGML 文件</translation>
    </message>
    <message>
      <source>array of {} {}</source>
      <translation>{0} 个 {1} 的数组</translation>
    </message>
    <message>
      <source>at least 1 is needed</source>
      <translation>至少需要 1</translation>
    </message>
    <message>
      <source>attention over a cache</source>
      <translation>基于缓存的注意力</translation>
    </message>
    <message>
      <source>block_count is {}, and the file holds {} tensors</source>
      <translation>block_count 为 {0}，而文件只有 {1} 个张量</translation>
    </message>
    <message>
      <source>bytes that are not UTF-8 (at {})</source>
      <translation>不是 UTF-8 的字节（位于 {0}）</translation>
    </message>
    <message>
      <source>chat templates</source>
      <translation>对话模板</translation>
    </message>
    <message>
      <source>compiling kernels for the card</source>
      <translation>正在为显卡编译内核</translation>
    </message>
    <message>
      <source>context length</source>
      <translation>上下文长度</translation>
    </message>
    <message>
      <source>copies from pageable memory</source>
      <translation>来自可分页内存的复制</translation>
    </message>
    <message>
      <source>copies over the link</source>
      <translation>经总线的复制</translation>
    </message>
    <message>
      <source>emulated ({} kernels)</source>
      <translation>模拟（{0} 内核）</translation>
    </message>
    <message>
      <source>emulated device</source>
      <translation>模拟设备</translation>
    </message>
    <message>
      <source>exit code {}</source>
      <translation>退出代码 {0}</translation>
    </message>
    <message>
      <source>expert_group_count is {}, for {} experts</source>
      <translation>expert_group_count 为 {0}，而专家有 {1} 个</translation>
    </message>
    <message>
      <source>expert_group_used_count is {} of {}, for {} experts per token</source>
      <translation>expert_group_used_count 为 {0}（共 {1}），而每个词元使用 {2} 个专家</translation>
    </message>
    <message>
      <source>experts from all over memory</source>
      <translation>内存各处的专家</translation>
    </message>
    <message>
      <source>extra prediction</source>
      <translation>附加预测</translation>
    </message>
    <message>
      <source>from 1 to {} are possible</source>
      <translation>可为 1 到 {0}</translation>
    </message>
    <message>
      <source>from source</source>
      <translation>源代码</translation>
    </message>
    <message>
      <source>general.alignment is {}, and must be a power of two from {} on</source>
      <translation>general.alignment 为 {0}，而必须是不小于 {1} 的二的幂</translation>
    </message>
    <message>
      <source>handing over to the processor</source>
      <translation>交接给处理器</translation>
    </message>
    <message>
      <source>in RAM, and on the GPU while an answer is written, unless others gain more from its room there: for prompts, they pass through it</source>
      <translation>在内存中，生成回答时也在 GPU 上，除非让其他块经过其位置更快：处理提示词时，其位置供其他块传输经过</translation>
    </message>
    <message>
      <source>in RAM: a token reads a single row of it</source>
      <translation>在内存中：每个词元只读取其中一行</translation>
    </message>
    <message>
      <source>in RAM: no GPU memory is in use</source>
      <translation>在内存中：未使用显存</translation>
    </message>
    <message>
      <source>in RAM: pinned by you</source>
      <translation>在内存中：由您固定</translation>
    </message>
    <message>
      <source>in RAM: the budget is spent on parts that gain more per byte, or a switch would cost more than it saves</source>
      <translation>在内存中：预算用于每字节收益更高的部分，或者切换设备的代价大于收益</translation>
    </message>
    <message>
      <source>it begins with {}</source>
      <translation>其开头为 {0}</translation>
    </message>
    <message>
      <source>it contains a NUL character</source>
      <translation>其中含有 NUL 字符</translation>
    </message>
    <message>
      <source>it did not finish in {} s</source>
      <translation>{0} 秒内没有完成</translation>
    </message>
    <message>
      <source>it is larger than {} rules or {} characters</source>
      <translation>超过了 {0} 条规则或 {1} 个字符</translation>
    </message>
    <message>
      <source>it is not valid JSON ({})</source>
      <translation>它不是有效的 JSON（{0}）</translation>
    </message>
    <message>
      <source>it needs too much memory</source>
      <translation>需要的内存太多</translation>
    </message>
    <message>
      <source>it nests deeper than {} parentheses</source>
      <translation>括号嵌套超过 {0} 层</translation>
    </message>
    <message>
      <source>it nests or recurses too deeply</source>
      <translation>嵌套或递归太深</translation>
    </message>
    <message>
      <source>it ran longer than {} s</source>
      <translation>运行超过了 {0} 秒</translation>
    </message>
    <message>
      <source>it ran too long, or needed too much memory, and was stopped</source>
      <translation>运行太久或需要太多内存，已被停止</translation>
    </message>
    <message>
      <source>it seems to be {}</source>
      <translation>看起来是{0}</translation>
    </message>
    <message>
      <source>it stopped answering</source>
      <translation>不再响应</translation>
    </message>
    <message>
      <source>it takes too long to read</source>
      <translation>读取它所需的时间过长</translation>
    </message>
    <message>
      <source>its certificate is not trusted (a company proxy needs its own certificate file)</source>
      <translation>其证书不受信任（公司代理需要自己的证书文件）</translation>
    </message>
    <message>
      <source>its name is not known (no network?)</source>
      <translation>无法解析其名称（没有网络？）</translation>
    </message>
    <message>
      <source>its output is longer than {} characters</source>
      <translation>其输出超过了 {0} 个字符</translation>
    </message>
    <message>
      <source>llama.cpp cannot load the vocabulary of {} ({}{}).</source>
      <translation>llama.cpp 无法加载 {0} 的词表（{1}{2}）。</translation>
    </message>
    <message>
      <source>llama.cpp could not make a context of {} tokens ({}).</source>
      <translation>llama.cpp 无法创建 {0} 个词元的上下文（{1}）。</translation>
    </message>
    <message>
      <source>llama.cpp could not run the model (llama_decode returned {}).</source>
      <translation>llama.cpp 无法运行该模型（llama_decode 返回 {0}）。</translation>
    </message>
    <message>
      <source>long text</source>
      <translation>长文本</translation>
    </message>
    <message>
      <source>matrix products</source>
      <translation>矩阵乘法</translation>
    </message>
    <message>
      <source>measured here</source>
      <translation>本机实测</translation>
    </message>
    <message>
      <source>memory bandwidth</source>
      <translation>内存带宽</translation>
    </message>
    <message>
      <source>memory readings</source>
      <translation>内存读数</translation>
    </message>
    <message>
      <source>memory unknown</source>
      <translation>内存未知</translation>
    </message>
    <message>
      <source>metadata entries</source>
      <translation>个元数据条目</translation>
    </message>
    <message>
      <source>metadata entry {} has a key of {} bytes</source>
      <translation>元数据条目 {0} 的键有 {1} 字节</translation>
    </message>
    <message>
      <source>nextn_predict_layers is {}, of {} layers in all</source>
      <translation>nextn_predict_layers 为 {0}，总共 {1} 层</translation>
    </message>
    <message>
      <source>no connection within {} s</source>
      <translation>{0} 秒内没有连上</translation>
    </message>
    <message>
      <source>no reason given</source>
      <translation>未说明原因</translation>
    </message>
    <message>
      <source>norms, rotations, activations</source>
      <translation>归一化、旋转、激活</translation>
    </message>
    <message>
      <source>not a GGUF file, {}</source>
      <translation>不是 GGUF 文件，{0}</translation>
    </message>
    <message>
      <source>number of threads</source>
      <translation>线程数</translation>
    </message>
    <message>
      <source>on a larger card </source>
      <translation>在更大的显卡上，</translation>
    </message>
    <message>
      <source>on the GPU: pinned by you</source>
      <translation>在 GPU 上：由您固定</translation>
    </message>
    <message>
      <source>on the GPU: {}</source>
      <translation>在 GPU 上：{0}</translation>
    </message>
    <message>
      <source>output head</source>
      <translation>输出头</translation>
    </message>
    <message>
      <source>partly from datasheets</source>
      <translation>部分取自产品规格</translation>
    </message>
    <message>
      <source>pip install {}</source>
      <translation>pip install {}</translation>
    </message>
    <message>
      <source>products from memory</source>
      <translation>从内存读取的乘积</translation>
    </message>
    <message>
      <source>products of {}</source>
      <translation>{0} 的乘法</translation>
    </message>
    <message>
      <source>rope factors</source>
      <translation>rope 因子</translation>
    </message>
    <message>
      <source>rope.dimension_count is {}, but a head has {} values</source>
      <translation>rope.dimension_count 为 {0}，而每个头有 {1} 个值</translation>
    </message>
    <message>
      <source>rope.dimension_count is {}, but {} values of a head turn</source>
      <translation>rope.dimension_count 为 {0}，而每个头有 {1} 个值参与旋转</translation>
    </message>
    <message>
      <source>rope.freq_base {} and factor {} give frequencies without end</source>
      <translation>rope.freq_base {0} 与因子 {1} 得出无穷大的频率</translation>
    </message>
    <message>
      <source>router and shared experts</source>
      <translation>路由与共享专家</translation>
    </message>
    <message>
      <source>shared experts</source>
      <translation>共享专家</translation>
    </message>
    <message>
      <source>stream {}</source>
      <translation>流式传输 {0}</translation>
    </message>
    <message>
      <source>tensor type {}</source>
      <translation>张量类型 {0}</translation>
    </message>
    <message>
      <source>tensor {} begins at offset {}, no multiple of {}</source>
      <translation>张量 {0} 始于偏移 {1}，不是 {2} 的倍数</translation>
    </message>
    <message>
      <source>tensor {} has an empty dimension: {}</source>
      <translation>张量 {0} 有空的维度：{1}</translation>
    </message>
    <message>
      <source>tensor {} has no name</source>
      <translation>张量 {0} 没有名称</translation>
    </message>
    <message>
      <source>tensor {} has rows of {} values, no multiple of {}'s block of {}</source>
      <translation>张量 {0} 每行 {1} 个值，不是 {2} 的块大小 {3} 的倍数</translation>
    </message>
    <message>
      <source>tensor {} has {} dimensions; at most {} are possible</source>
      <translation>张量 {0} 有 {1} 个维度；最多 {2} 个</translation>
    </message>
    <message>
      <source>tensor {} is in {} too</source>
      <translation>张量 {0} 也在 {1} 中</translation>
    </message>
    <message>
      <source>tensors {} and {} overlap at offset {}</source>
      <translation>张量 {0} 与 {1} 在偏移 {2} 处重叠</translation>
    </message>
    <message>
      <source>the connection was closed early</source>
      <translation>连接被提前关闭</translation>
    </message>
    <message>
      <source>the connection was refused</source>
      <translation>连接被拒绝</translation>
    </message>
    <message>
      <source>the cost of an operation</source>
      <translation>单个操作的开销</translation>
    </message>
    <message>
      <source>the engine</source>
      <translation>引擎</translation>
    </message>
    <message>
      <source>the facts of a repository</source>
      <translation>仓库的信息</translation>
    </message>
    <message>
      <source>the files of a repository</source>
      <translation>仓库的文件</translation>
    </message>
    <message>
      <source>the first line does not name the conversation</source>
      <translation>第一行没有对话名称</translation>
    </message>
    <message>
      <source>the format is not named</source>
      <translation>没有注明格式</translation>
    </message>
    <message>
      <source>the header announces {} {}; at most {} are supported</source>
      <translation>文件头声明了 {0} {1}；最多支持 {2}</translation>
    </message>
    <message>
      <source>the info of tensor {}</source>
      <translation>张量 {0} 的信息</translation>
    </message>
    <message>
      <source>the key of metadata entry {}</source>
      <translation>元数据条目 {0} 的键</translation>
    </message>
    <message>
      <source>the key {} of metadata entry {} is not UTF-8</source>
      <translation>元数据条目 {1} 的键 {0} 不是 UTF-8</translation>
    </message>
    <message>
      <source>the magic number</source>
      <translation>魔数</translation>
    </message>
    <message>
      <source>the metadata count</source>
      <translation>元数据数量</translation>
    </message>
    <message>
      <source>the metadata key {} occurs twice</source>
      <translation>元数据键 {0} 出现了两次</translation>
    </message>
    <message>
      <source>the parent of message {} is missing</source>
      <translation>缺少消息 {0} 的上一条</translation>
    </message>
    <message>
      <source>the proxy asks for a user name and a password</source>
      <translation>代理要求用户名和密码</translation>
    </message>
    <message>
      <source>the proxy failed ({})</source>
      <translation>代理出错（{0}）</translation>
    </message>
    <message>
      <source>the reference {} in {} leads nowhere</source>
      <translation>{1} 中的引用 {0} 没有目标</translation>
    </message>
    <message>
      <source>the reference {} in {} leads outside the schema</source>
      <translation>{1} 中的引用 {0} 指向模式之外</translation>
    </message>
    <message>
      <source>the schema</source>
      <translation>该模式</translation>
    </message>
    <message>
      <source>the size of tensor {} overflows: {}</source>
      <translation>张量 {0} 的大小溢出：{1}</translation>
    </message>
    <message>
      <source>the tensor count</source>
      <translation>张量数量</translation>
    </message>
    <message>
      <source>the tensor name {} is not UTF-8</source>
      <translation>张量名称 {0} 不是 UTF-8</translation>
    </message>
    <message>
      <source>the tensor name {} occurs twice</source>
      <translation>张量名称 {0} 出现了两次</translation>
    </message>
    <message>
      <source>the tensor of rotary factors has {} values for {} pairs</source>
      <translation>旋转因子张量有 {0} 个值，对应 {1} 对</translation>
    </message>
    <message>
      <source>the tensor “{}” is missing</source>
      <translation>缺少张量“{0}”</translation>
    </message>
    <message>
      <source>the type {} in {} is unknown</source>
      <translation>{1} 中的类型 {0} 未知</translation>
    </message>
    <message>
      <source>the value of metadata key {}</source>
      <translation>元数据键 {0} 的值</translation>
    </message>
    <message>
      <source>the version</source>
      <translation>版本</translation>
    </message>
    <message>
      <source>the window</source>
      <translation>窗口</translation>
    </message>
    <message>
      <source>the {} rows of “{}” do not divide into gate and up</source>
      <translation>“{1}”的 {0} 行无法分成 gate 与 up</translation>
    </message>
    <message>
      <source>the {} rows of “{}” do not divide into {} heads</source>
      <translation>“{1}”的 {0} 行无法平均分成 {2} 个头</translation>
    </message>
    <message>
      <source>tokenizers and the compatibility engine</source>
      <translation>分词器和兼容引擎</translation>
    </message>
    <message>
      <source>tokens of a small model</source>
      <translation>小模型的词元</translation>
    </message>
    <message>
      <source>two messages have the same id</source>
      <translation>有两条消息的编号相同</translation>
    </message>
    <message>
      <source>unsupported type {}</source>
      <translation>不支持的类型 {0}</translation>
    </message>
    <message>
      <source>unsupported type {} ({}, no longer in use)</source>
      <translation>不支持的类型 {0}（{1}，已不再使用）</translation>
    </message>
    <message>
      <source>unsupported type {} ({}, of ik_llama.cpp)</source>
      <translation>不支持的类型 {0}（{1}，属于 ik_llama.cpp）</translation>
    </message>
    <message>
      <source>used by every token, so it comes before any single expert</source>
      <translation>每个词元都会用到，因此优先于任何单个专家</translation>
    </message>
    <message>
      <source>used by every token, with its KV cache beside it</source>
      <translation>每个词元都会用到，KV 缓存与之相邻</translation>
    </message>
    <message>
      <source>used by every token; the GPU reads it faster</source>
      <translation>每个词元都会用到；GPU 读取更快</translation>
    </message>
    <message>
      <source>values from {} to {}</source>
      <translation>{0} 到 {1} 的值</translation>
    </message>
    <message>
      <source>version {} is newer than this program</source>
      <translation>版本 {0} 比本程序新</translation>
    </message>
    <message>
      <source>what its driver says of it</source>
      <translation>驱动提供的信息</translation>
    </message>
    <message>
      <source>while it answered</source>
      <translation>在回答时</translation>
    </message>
    <message>
      <source>while it loaded the model</source>
      <translation>在加载模型时</translation>
    </message>
    <message>
      <source>{} GiB, {} GiB available</source>
      <translation>{} GiB，可用 {} GiB</translation>
    </message>
    <message>
      <source>{} MB are needed</source>
      <translation>需要 {0} MB</translation>
    </message>
    <message>
      <source>{} Or run it on the processor.</source>
      <translation>{0} 或用处理器运行。</translation>
    </message>
    <message>
      <source>{} The default is used.</source>
      <translation>{0}将使用默认值。</translation>
    </message>
    <message>
      <source>{} The model runs on the processor.</source>
      <translation>{} 模型在处理器上运行。</translation>
    </message>
    <message>
      <source>{} The model runs on the processor. {}</source>
      <translation>{0} 模型在处理器上运行。{1}</translation>
    </message>
    <message>
      <source>{} answers the search, but not the request for {}: {}</source>
      <translation>{0} 能回应搜索，却不能回应对{1}的请求：{2}</translation>
    </message>
    <message>
      <source>{} are missing beside what the system needs.</source>
      <translation>除系统所需之外还缺 {0}。</translation>
    </message>
    <message>
      <source>{} became shorter while it was read.</source>
      <translation>{0} 在读取过程中变短了。</translation>
    </message>
    <message>
      <source>{} belongs to Ollama, which keeps a list of it.</source>
      <translation>{0} 属于 Ollama，由其自行管理。</translation>
    </message>
    <message>
      <source>{} belongs to the installation of Tessera.</source>
      <translation>{} 属于 Tessera 的安装内容。</translation>
    </message>
    <message>
      <source>{} cannot be made: {}.</source>
      <translation>无法创建 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be mapped into memory: {}.</source>
      <translation>无法将 {0} 映射到内存：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be moved: {}.</source>
      <translation>无法移动 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be opened: {}.</source>
      <translation>无法打开 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be reached: {}.</source>
      <translation>无法连接 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be read: {}.</source>
      <translation>无法读取 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} cannot be written: {}.</source>
      <translation>无法写入 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} channels of “{}” do not divide into {} heads of queries and keys beside {} × {} values</source>
      <translation>“{1}”的 {0} 个通道除 {3} × {4} 个值之外，无法分成 {2} 个查询与键的头</translation>
    </message>
    <message>
      <source>{} could not be moved to the trash: it is in use, or may not be changed.</source>
      <translation>无法将 {0} 移到回收站：它正在使用中，或不允许更改。</translation>
    </message>
    <message>
      <source>{} could not be opened: {}.</source>
      <translation>无法打开 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} could not be read while in use; its disk may be failing or disconnected.</source>
      <translation>使用中无法读取 {0}；其磁盘可能出现故障或已断开。</translation>
    </message>
    <message>
      <source>{} could not be read: {}.</source>
      <translation>无法读取 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} could not be written: {}.</source>
      <translation>无法写入 {0}：{1}。</translation>
    </message>
    <message>
      <source>{} does not name its pre-tokenizer (tokenizer.ggml.pre)</source>
      <translation>{0} 没有指明预分词器（tokenizer.ggml.pre）</translation>
    </message>
    <message>
      <source>{} ends at byte {}, and a header has at most {}</source>
      <translation>{0}止于字节 {1}，而文件头最多为 {2}</translation>
    </message>
    <message>
      <source>{} experts are used per token, but there are only {}</source>
      <translation>每个词元使用 {0} 个专家，但总共只有 {1} 个</translation>
    </message>
    <message>
      <source>{} for the conversation's context could not be reserved.</source>
      <translation>无法为对话的上下文预留 {0}。</translation>
    </message>
    <message>
      <source>{} free for {}</source>
      <translation>{} 可用于 {}</translation>
    </message>
    <message>
      <source>{} gave an answer that makes no sense ({}).</source>
      <translation>{0} 给出了不合理的答复（{1}）。</translation>
    </message>
    <message>
      <source>{} has a driver for CUDA {}.{}, older than NVRTC {}.</source>
      <translation>{0} 的驱动支持 CUDA {1}.{2}，早于 NVRTC {3}。</translation>
    </message>
    <message>
      <source>{} has a problem of its own (status {}).</source>
      <translation>{0} 自身出现问题（状态 {1}）。</translation>
    </message>
    <message>
      <source>{} has changed on the hub since this download began.</source>
      <translation>自本次下载开始以来，{0} 在模型中心中已更改。</translation>
    </message>
    <message>
      <source>{} has the unknown type {} (at byte {})</source>
      <translation>{0} 的类型 {1} 未知（位于字节 {2}）</translation>
    </message>
    <message>
      <source>{} has {} tokens, but embeddings of {} only.</source>
      <translation>{0} 有 {1} 个词元，但只有 {2} 个嵌入。</translation>
    </message>
    <message>
      <source>{} heads cannot share {} key-value heads evenly</source>
      <translation>{0} 个头无法平均共享 {1} 个键值头</translation>
    </message>
    <message>
      <source>{} holds no conversations of Tessera: {}.</source>
      <translation>{0} 中没有 Tessera 的对话：{1}。</translation>
    </message>
    <message>
      <source>{} holds no libraries.</source>
      <translation>{0} 中没有程序库。</translation>
    </message>
    <message>
      <source>{} holds no list of releases (status {}).</source>
      <translation>{} 上没有发布信息（状态 {}）。</translation>
    </message>
    <message>
      <source>{} holds no model with these files any more.</source>
      <translation>{0} 中不再有包含这些文件的模型。</translation>
    </message>
    <message>
      <source>{} holds no release that can be read.</source>
      <translation>{} 上没有可以读取的发布信息。</translation>
    </message>
    <message>
      <source>{} holds no vocabulary.</source>
      <translation>{0} 没有词表。</translation>
    </message>
    <message>
      <source>{} holds {} characters; attachments can hold {}.</source>
      <translation>{0} 有 {1} 个字符；附件最多 {2} 个。</translation>
    </message>
    <message>
      <source>{} is a big-endian GGUF file (version {}), made for another kind of computer.</source>
      <translation>{0} 是大端序的 GGUF 文件（版本 {1}），为另一种电脑制作。</translation>
    </message>
    <message>
      <source>{} is a folder or a device, not a file.</source>
      <translation>{0} 是文件夹或设备，不是文件。</translation>
    </message>
    <message>
      <source>{} is being downloaded by another window.</source>
      <translation>{0} 正由另一个窗口下载。</translation>
    </message>
    <message>
      <source>{} is cut short: tensor {} takes bytes {} to {}, the file has {}.</source>
      <translation>{0} 不完整：张量 {1} 占字节 {2} 至 {3}，文件只有 {4}。</translation>
    </message>
    <message>
      <source>{} is cut short: {} ends at byte {}, the file has {}.</source>
      <translation>{0} 不完整：{1}止于字节 {2}，文件只有 {3}。</translation>
    </message>
    <message>
      <source>{} is damaged: its SHA-256 is {}…, and the hub says {}….</source>
      <translation>{0} 已损坏：其 SHA-256 为 {1}…，而模型中心给出 {2}…。</translation>
    </message>
    <message>
      <source>{} is empty.</source>
      <translation>{0} 是空的。</translation>
    </message>
    <message>
      <source>{} is gated: its owners ask everybody to accept their terms first.</source>
      <translation>{0} 受限：其所有者要求每个人先接受条款。</translation>
    </message>
    <message>
      <source>{} is here, but its kernels cannot be compiled: {}.</source>
      <translation>{0} 可用，但无法编译其内核：{1}。</translation>
    </message>
    <message>
      <source>{} is here, but not NVRTC, which compiles its kernels.</source>
      <translation>{} 可用，但缺少用来编译其内核的 NVRTC。</translation>
    </message>
    <message>
      <source>{} is in the models folder already.</source>
      <translation>{0} 已在模型文件夹中。</translation>
    </message>
    <message>
      <source>{} is inside the present models folder.</source>
      <translation>{0} 在当前的模型文件夹之内。</translation>
    </message>
    <message>
      <source>{} is neither text nor a PDF.</source>
      <translation>{0} 既不是文本也不是 PDF。</translation>
    </message>
    <message>
      <source>{} is nested too deeply</source>
      <translation>{0} 嵌套太深</translation>
    </message>
    <message>
      <source>{} is no https address.</source>
      <translation>{} 不是 https 地址。</translation>
    </message>
    <message>
      <source>{} is no schema</source>
      <translation>{0} 不是模式</translation>
    </message>
    <message>
      <source>{} is no text generation model (it has an encoder, or no decoder).</source>
      <translation>{0} 不是文本生成模型（它有编码器，或没有解码器）。</translation>
    </message>
    <message>
      <source>{} is not in the catalogue: it is left out.</source>
      <translation>{0} 不在目录中：不予考虑。</translation>
    </message>
    <message>
      <source>{} is not there.</source>
      <translation>{0} 不存在。</translation>
    </message>
    <message>
      <source>{} is of GGUF version {}; versions 2 and 3 are known.</source>
      <translation>{0} 是 GGUF 版本 {1}；已知版本为 2 和 3。</translation>
    </message>
    <message>
      <source>{} is older than what the CUDA kernels are written for (Turing, 2018).</source>
      <translation>{0} 早于 CUDA 内核所支持的架构（Turing，2018 年）。</translation>
    </message>
    <message>
      <source>{} is there already.</source>
      <translation>{0} 已经存在。</translation>
    </message>
    <message>
      <source>{} is used instead.</source>
      <translation>改用 {0}。</translation>
    </message>
    <message>
      <source>{} is used; {} stays idle, because one model runs on one GPU.</source>
      <translation>使用 {0}；{1} 保持闲置，因为一个模型只在一块 GPU 上运行。</translation>
    </message>
    <message>
      <source>{} is {} MB; attachments can be {} MB.</source>
      <translation>{0} 为 {1} MB；附件最大 {2} MB。</translation>
    </message>
    <message>
      <source>{} items</source>
      <translation>{0} 项</translation>
    </message>
    <message>
      <source>{} lacks the metadata key general.architecture.</source>
      <translation>{0} 缺少元数据键 general.architecture。</translation>
    </message>
    <message>
      <source>{} lacks the metadata key {} ({}).</source>
      <translation>{0} 缺少元数据键 {1}（{2}）。</translation>
    </message>
    <message>
      <source>{} lacks the metadata key {}.{}.</source>
      <translation>{0} 缺少元数据键 {1}.{2}。</translation>
    </message>
    <message>
      <source>{} may not be read: it is locked by another program, or belongs to another user.</source>
      <translation>无法读取 {0}：它被其他程序锁定，或属于其他用户。</translation>
    </message>
    <message>
      <source>{} may not be written to ({}).</source>
      <translation>不允许写入 {0}（{1}）。</translation>
    </message>
    <message>
      <source>{} more would give {} instead of {} tok/s.</source>
      <translation>再多 {0}，速度将由 {2} 提升到 {1} 词元/秒。</translation>
    </message>
    <message>
      <source>{} names its pre-tokenizer only "default" (tokenizer.ggml.pre)</source>
      <translation>{0} 只将预分词器命名为“default”（tokenizer.ggml.pre）</translation>
    </message>
    <message>
      <source>{} needs the compatibility engine, and that a processor with AVX2, which this one lacks.</source>
      <translation>{} 需要兼容引擎，而兼容引擎需要支持 AVX2 的处理器，本机的处理器不支持。</translation>
    </message>
    <message>
      <source>{} needs {} more free space.</source>
      <translation>{0} 还需要 {1} 可用空间。</translation>
    </message>
    <message>
      <source>{} needs {} of RAM, and {} may be used: {} are missing.</source>
      <translation>{0} 需要 {1} 内存，而可用 {2}：缺少 {3}。</translation>
    </message>
    <message>
      <source>{} needs {} of device memory, and {} of {} are left.</source>
      <translation>{0} 需要 {1} 设备内存，而 {3} 中还剩 {2}。</translation>
    </message>
    <message>
      <source>{} needs {} of memory, and {} are free.</source>
      <translation>{0} 需要 {1} 内存，而可用 {2}。</translation>
    </message>
    <message>
      <source>{} no longer holds {}.</source>
      <translation>{0} 不再包含 {1}。</translation>
    </message>
    <message>
      <source>{} of RAM</source>
      <translation>{0} 内存</translation>
    </message>
    <message>
      <source>{} of RAM and {} on the GPU</source>
      <translation>{0} 内存和 {1} 显存</translation>
    </message>
    <message>
      <source>{} of addresses for {} could not be reserved.</source>
      <translation>无法为“{1}”预留 {0} 的地址空间。</translation>
    </message>
    <message>
      <source>{} of weights and {} of cache for {} tokens.</source>
      <translation>权重 {0}，{2} 个词元的缓存 {1}。</translation>
    </message>
    <message>
      <source>{} of weights and {} of cache in 8 bits for {} tokens.</source>
      <translation>权重 {0}，{2} 个词元的 8 位缓存 {1}。</translation>
    </message>
    <message>
      <source>{} of weights; the cache comes on top.</source>
      <translation>权重 {0}；缓存另计。</translation>
    </message>
    <message>
      <source>{} of {} experts in slots, holding those used last: {} % of uses</source>
      <translation>{1} 个专家中有 {0} 个在槽位中，保存最近使用的：占使用的 {2} %</translation>
    </message>
    <message>
      <source>{} on the GPU, {} in RAM.</source>
      <translation>GPU 上 {0}，内存中 {1}。</translation>
    </message>
    <message>
      <source>{} on the card</source>
      <translation>显卡：{0}</translation>
    </message>
    <message>
      <source>{} on the hub is no GGUF file.</source>
      <translation>模型中心中的 {0} 不是 GGUF 文件。</translation>
    </message>
    <message>
      <source>{} refused the request (status {}).</source>
      <translation>{0} 拒绝了请求（状态 {1}）。</translation>
    </message>
    <message>
      <source>{} tensors are of {}, made by another engine.</source>
      <translation>{0} 个张量的类型为 {1}，由其他引擎制作。</translation>
    </message>
    <message>
      <source>{} was changed by another program while in use.</source>
      <translation>{0} 在使用中被其他程序修改了。</translation>
    </message>
    <message>
      <source>{} was cut from {} to {} bytes by another program while in use.</source>
      <translation>{0} 在使用中被其他程序从 {1} 字节截短到 {2} 字节。</translation>
    </message>
    <message>
      <source>{} was not found on {}{}.</source>
      <translation>在 {1} 上找不到 {0}{2}。</translation>
    </message>
    <message>
      <source>{}, Python {}</source>
      <translation>{}，Python {}</translation>
    </message>
    <message>
      <source>{}, base {}, scaling {}</source>
      <translation>{0}，基数 {1}，缩放 {2}</translation>
    </message>
    <message>
      <source>{}, bundle</source>
      <translation>{}，安装包</translation>
    </message>
    <message>
      <source>{}, so words may be split otherwise than in training. If answers look garbled, download a newer conversion.</source>
      <translation>{0}，因此词语的切分可能与训练时不同。如果回答看起来混乱，请下载较新的转换版本。</translation>
    </message>
    <message>
      <source>{}, {} cores, {} threads</source>
      <translation>{}，{} 核，{} 线程</translation>
    </message>
    <message>
      <source>{}, {}, driver {}</source>
      <translation>{}，{}，驱动 {}</translation>
    </message>
    <message>
      <source>{}: block_count is {}, but layer {} has no tensors.</source>
      <translation>{0}：block_count 为 {1}，但第 {2} 层没有张量。</translation>
    </message>
    <message>
      <source>{}: block_count is {}, but there are tensors of layer {}.</source>
      <translation>{0}：block_count 为 {1}，但有第 {2} 层的张量。</translation>
    </message>
    <message>
      <source>{}: cache</source>
      <translation>{0}：缓存</translation>
    </message>
    <message>
      <source>{}: expert_count is {}, but {} holds {} experts.</source>
      <translation>{0}：expert_count 为 {1}，但 {2} 含有 {3} 个专家。</translation>
    </message>
    <message>
      <source>{}: expert_used_count is {} of {} experts.</source>
      <translation>{0}：expert_used_count 为 {1}，共 {2} 个专家。</translation>
    </message>
    <message>
      <source>{}: no addresses are left on the card.</source>
      <translation>{0}：显卡上没有剩余的地址。</translation>
    </message>
    <message>
      <source>{}: rope.scaling.type is “{}”, which is not supported.</source>
      <translation>{0}：不支持 rope.scaling.type“{1}”。</translation>
    </message>
    <message>
      <source>{}: slots</source>
      <translation>{0}：槽位</translation>
    </message>
    <message>
      <source>{}: the architecture “{}” is not one that Tessera builds itself, and what a plan needs does not stand in the header as with others ({}).</source>
      <translation>{0}：架构“{1}”不是 Tessera 自己构建的架构，其文件头也没有像其他架构那样给出规划所需的信息（{2}）。</translation>
    </message>
    <message>
      <source>{}: the architecture “{}” is not one that Tessera builds itself.</source>
      <translation>{0}：架构“{1}”不是 Tessera 自己构建的架构。</translation>
    </message>
    <message>
      <source>{}: the header announces {} {}, which take at least {} bytes, and {} follow.</source>
      <translation>{0}：文件头声明了 {1} {2}，至少占 {3} 字节，而其后只有 {4}。</translation>
    </message>
    <message>
      <source>{}: the header has no end within {} MiB.</source>
      <translation>{0}：文件头在 {1} MiB 之内没有结束。</translation>
    </message>
    <message>
      <source>{}: the tensor “{}” is missing.</source>
      <translation>{0}：缺少张量“{1}”。</translation>
    </message>
    <message>
      <source>{}: the tensor “{}” is of type {}, and must be F32.</source>
      <translation>{0}：张量“{1}”的类型为 {2}，而必须是 F32。</translation>
    </message>
    <message>
      <source>{}: the tensor “{}” is {} × {} × {}, but the model needs {} × {} × {}.</source>
      <translation>{0}：张量“{1}”为 {2} × {3} × {4}，而模型需要 {5} × {6} × {7}。</translation>
    </message>
    <message>
      <source>{}: the tensor “{}”{} has no place in the architecture “{}” as Tessera knows it; leaving it out would change the answers.</source>
      <translation>{0}：张量“{1}”{2} 在 Tessera 所知的架构“{3}”中没有位置；略去它会改变回答。</translation>
    </message>
    <message>
      <source>{}: {} announces {} items, which take at least {} bytes, and {} follow.</source>
      <translation>{0}：{1} 声明了 {2} 项，至少占 {3} 字节，而其后只有 {4}。</translation>
    </message>
    <message>
      <source>{}: {} holds {} numbers for {} layers.</source>
      <translation>{0}：{1} 含有 {2} 个数，而共有 {3} 层。</translation>
    </message>
    <message>
      <source>{}: {} is "{}", which this version does not know.</source>
      <translation>{0}：{1} 为“{2}”，该版本不认识它。</translation>
    </message>
    <message>
      <source>{}: {} is an array of arrays, which no model needs.</source>
      <translation>{0}：{1} 是数组的数组，没有模型需要它。</translation>
    </message>
    <message>
      <source>{}: {} is {}, and at least {} is needed.</source>
      <translation>{0}：{1} 为 {2}，而至少需要 {3}。</translation>
    </message>
    <message>
      <source>{}: {} is {}, which is not supported.</source>
      <translation>{0}：不支持 {1} 的值 {2}。</translation>
    </message>
    <message>
      <source>{}: {} is {}, which must be above zero.</source>
      <translation>{0}：{1} 为 {2}，而必须大于零。</translation>
    </message>
    <message>
      <source>{}: {} is {}, which our own engine does not compute.</source>
      <translation>{0}：{1} 为 {2}，我们自己的引擎无法计算。</translation>
    </message>
    <message>
      <source>{}: {} is {}; it must lie between {} and {}.</source>
      <translation>{0}：{1} 为 {2}；必须介于 {3} 和 {4} 之间。</translation>
    </message>
    <message>
      <source>{}: {} is {}; known are {}.</source>
      <translation>{0}：{1} 为 {2}；已知的有 {3}。</translation>
    </message>
    <message>
      <source>{}: {} must be a whole number, but is {}.</source>
      <translation>{0}：{1} 必须是整数，但却是 {2}。</translation>
    </message>
    <message>
      <source>{}: {} must be {}, but is {}.</source>
      <translation>{0}：{1} 必须是{2}，但却是{3}。</translation>
    </message>
    <message>
      <source>{}: ~{} tok/s predicted</source>
      <translation>{0}：预测约 {1} 词元/秒</translation>
    </message>
    <message>
      <source>{}: “{}” holds gate and up of the experts, which is not supported.</source>
      <translation>{0}：“{1}”把专家的 gate 与 up 合在一起，尚不支持。</translation>
    </message>
    <message>
      <source>{}: “{}” is not of type F32.</source>
      <translation>{0}：“{1}”的类型不是 F32。</translation>
    </message>
    <message>
      <source>{}: “{}” keeps one expert in a tensor of its own, a layout of early 2024.</source>
      <translation>{0}：“{1}”将一个专家放在单独的张量中，这是 2024 年初的布局。</translation>
    </message>
    <message>
      <source>“threads” must be at most {}: no more logical processors can be used here.</source>
      <translation>“threads”最多为 {}：这里没有更多可用的逻辑处理器。</translation>
    </message>
    <message>
      <source>“{}.attn_q.weight” and “{}.attn_k.weight” disagree on the size of a head</source>
      <translation>“{0}.attn_q.weight”与“{1}.attn_k.weight”的头大小不一致</translation>
    </message>
    <message>
      <source>“{}” and “{}.attn_kv_a_mqa.weight” leave no values for a part of a head</source>
      <translation>“{0}”与“{1}.attn_kv_a_mqa.weight”没有为头的某一部分留下值</translation>
    </message>
    <message>
      <source>“{}” and “{}” in {} leave nothing</source>
      <translation>{2} 中的“{0}”与“{1}”没有留下任何可能</translation>
    </message>
    <message>
      <source>“{}” can be {}, not {}.</source>
      <translation>“{0}”可以是 {1}，而不是 {2}。</translation>
    </message>
    <message>
      <source>“{}” holds a value that is not above zero</source>
      <translation>“{0}”含有不大于零的值</translation>
    </message>
    <message>
      <source>“{}” holds characters that no file or address can have.</source>
      <translation>“{}”含有任何文件或地址都不能有的字符。</translation>
    </message>
    <message>
      <source>“{}” in {} has a value of the wrong kind</source>
      <translation>{1} 中“{0}”的值类型不对</translation>
    </message>
    <message>
      <source>“{}” in {} is not supported</source>
      <translation>不支持 {1} 中的“{0}”</translation>
    </message>
    <message>
      <source>“{}” is no amount of memory.</source>
      <translation>“{0}”不是内存大小。</translation>
    </message>
    <message>
      <source>“{}” is required in {} but not described</source>
      <translation>{1} 中要求“{0}”，却没有说明</translation>
    </message>
    <message>
      <source>“{}” must be at least {}, not {}.</source>
      <translation>“{0}”至少为 {1}，而不是 {2}。</translation>
    </message>
    <message>
      <source>“{}” must be at most {}, not {}.</source>
      <translation>“{0}”至多为 {1}，而不是 {2}。</translation>
    </message>
    <message>
      <source>“{}” needs a value like {}, not {}.</source>
      <translation>“{0}”需要形如 {1} 的值，而不是 {2}。</translation>
    </message>
    <message>
      <source>“{}” of {} does not divide into {} + 2 × {} heads</source>
      <translation>大小为 {1} 的“{0}”无法分成 {2} + 2 × {3} 个头</translation>
    </message>
  </context>
</TS>
