<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
  <context>
    <name>Tessera</name>
    <message>
      <source>, {active} active</source>
      <translation>，其中激活 {active}</translation>
    </message>
    <message>
      <source>1 download, {percent} %, {speed}/s</source>
      <translation>1 个下载，{percent} %，{speed}/s</translation>
    </message>
    <message>
      <source>16 bits</source>
      <translation>16 位</translation>
    </message>
    <message>
      <source>8 bits</source>
      <translation>8 位</translation>
    </message>
    <message>
      <source>A PEM file, for companies whose proxy signs its own certificates.</source>
      <translation>PEM 文件，用于代理自行签发证书的公司网络。</translation>
    </message>
    <message>
      <source>A download failed: {name}</source>
      <translation>下载失败：{name}</translation>
    </message>
    <message>
      <source>A download of {size}.</source>
      <translation>需下载 {size}。</translation>
    </message>
    <message>
      <source>A good start</source>
      <translation>入门推荐</translation>
    </message>
    <message>
      <source>A layer's first cells stand for its slots on the GPU: whichever experts were used last fill them.</source>
      <translation>每层最前面的格子代表其 GPU 槽位：由最近使用过的专家填充。</translation>
    </message>
    <message>
      <source>A part of Tessera could not be loaded: {error}.</source>
      <translation>Tessera 的一个组成部分无法加载：{error}。</translation>
    </message>
    <message>
      <source>A report holds what is known of the crash and of this computer, and no words of yours.</source>
      <translation>报告包含有关崩溃和这台电脑的已知信息，不含您写的任何内容。</translation>
    </message>
    <message>
      <source>A small starter model is here already and answers at once: quick, but not clever.</source>
      <translation>已经附带一个小型入门模型，可以立即回答：很快，但不算聪明。</translation>
    </message>
    <message>
      <source>Access to the hub</source>
      <translation>访问模型中心</translation>
    </message>
    <message>
      <source>Access token</source>
      <translation>访问令牌</translation>
    </message>
    <message>
      <source>Access token and connection</source>
      <translation>访问令牌与连接</translation>
    </message>
    <message>
      <source>Access token and connection…</source>
      <translation>访问令牌与连接…</translation>
    </message>
    <message>
      <source>Add a file…</source>
      <translation>添加文件…</translation>
    </message>
    <message>
      <source>Add a folder of models</source>
      <translation>添加模型文件夹</translation>
    </message>
    <message>
      <source>Add a folder…</source>
      <translation>添加文件夹…</translation>
    </message>
    <message>
      <source>Add models</source>
      <translation>添加模型</translation>
    </message>
    <message>
      <source>Additional certificates</source>
      <translation>附加证书</translation>
    </message>
    <message>
      <source>Address for updates</source>
      <translation>更新地址</translation>
    </message>
    <message>
      <source>Address: {endpoint}</source>
      <translation>地址：{endpoint}</translation>
    </message>
    <message>
      <source>After the first answer the model is asked for a title, while nothing else is to be done.</source>
      <translation>第一次回答之后，在空闲时请模型为对话拟定标题。</translation>
    </message>
    <message>
      <source>After these thoughts no answer came.</source>
      <translation>思考之后没有给出回答。</translation>
    </message>
    <message>
      <source>All settings have their defaults again.</source>
      <translation>所有设置已恢复默认值。</translation>
    </message>
    <message>
      <source>Allow {size}</source>
      <translation>允许 {size}</translation>
    </message>
    <message>
      <source>An answer failed: {title}</source>
      <translation>回答失败：{title}</translation>
    </message>
    <message>
      <source>An answer is ready: {title}</source>
      <translation>回答已完成：{title}</translation>
    </message>
    <message>
      <source>An x86-64 processor from 2009 or later is needed, one with AVX2 (2013 or later) recommended.</source>
      <translation>需要 2009 年或以后的 x86-64 处理器，建议使用支持 AVX2 的处理器（2013 年或以后）。</translation>
    </message>
    <message>
      <source>Answer</source>
      <translation>回答</translation>
    </message>
    <message>
      <source>Answer again</source>
      <translation>重新回答</translation>
    </message>
    <message>
      <source>Answers</source>
      <translation>回答</translation>
    </message>
    <message>
      <source>Answers are made on this computer. Nothing leaves it.</source>
      <translation>回答在本机生成，任何内容都不会离开这台电脑。</translation>
    </message>
    <message>
      <source>Appearance</source>
      <translation>外观</translation>
    </message>
    <message>
      <source>Application</source>
      <translation>应用程序</translation>
    </message>
    <message>
      <source>As a table</source>
      <translation>以表格显示</translation>
    </message>
    <message>
      <source>As http://user:password@host:port. Empty: the system's; “none”: no proxy at all.</source>
      <translation>形如 http://user:password@host:port。留空：使用系统代理；“none”：不使用代理。</translation>
    </message>
    <message>
      <source>Ask nothing of the network, whatever is pressed.</source>
      <translation>无论按下什么，都不访问网络。</translation>
    </message>
    <message>
      <source>Ask what to do</source>
      <translation>询问如何处理</translation>
    </message>
    <message>
      <source>Asked at {address}.</source>
      <translation>查询地址：{address}。</translation>
    </message>
    <message>
      <source>Asking the hub…</source>
      <translation>正在询问模型中心…</translation>
    </message>
    <message>
      <source>Attach files</source>
      <translation>附加文件</translation>
    </message>
    <message>
      <source>Attach files…</source>
      <translation>附加文件…</translation>
    </message>
    <message>
      <source>Automatic</source>
      <translation>自动</translation>
    </message>
    <message>
      <source>Automatic uses Tessera's own engine wherever it knows the model.</source>
      <translation>“自动”会在支持该模型时使用 Tessera 自己的引擎。</translation>
    </message>
    <message>
      <source>Back to the default</source>
      <translation>恢复默认值</translation>
    </message>
    <message>
      <source>Back to the settings</source>
      <translation>返回设置</translation>
    </message>
    <message>
      <source>Balanced</source>
      <translation>均衡</translation>
    </message>
    <message>
      <source>Balanced.</source>
      <translation>均衡。</translation>
    </message>
    <message>
      <source>Begin a new line</source>
      <translation>换行</translation>
    </message>
    <message>
      <source>Broken</source>
      <translation>有问题</translation>
    </message>
    <message>
      <source>Browse…</source>
      <translation>浏览…</translation>
    </message>
    <message>
      <source>By the model</source>
      <translation>由模型决定</translation>
    </message>
    <message>
      <source>Cache</source>
      <translation>缓存</translation>
    </message>
    <message>
      <source>Came with Tessera</source>
      <translation>随 Tessera 附带</translation>
    </message>
    <message>
      <source>Cancel</source>
      <translation>取消</translation>
    </message>
    <message>
      <source>Cancel the download?</source>
      <translation>取消下载吗？</translation>
    </message>
    <message>
      <source>Changed</source>
      <translation>已修改</translation>
    </message>
    <message>
      <source>Changing the budget to {size} between two tokens …</source>
      <translation>正在两个词元之间把预算改为 {size}……</translation>
    </message>
    <message>
      <source>Chat</source>
      <translation>对话</translation>
    </message>
    <message>
      <source>Check again</source>
      <translation>重新检查</translation>
    </message>
    <message>
      <source>Check now</source>
      <translation>立即检查</translation>
    </message>
    <message>
      <source>Check of this computer</source>
      <translation>检查这台电脑</translation>
    </message>
    <message>
      <source>Check the free space and the permissions of {path}.</source>
      <translation>请检查 {path} 的可用空间和权限。</translation>
    </message>
    <message>
      <source>Checksum</source>
      <translation>校验和</translation>
    </message>
    <message>
      <source>Choose a model</source>
      <translation>选择模型</translation>
    </message>
    <message>
      <source>Choose a model to begin</source>
      <translation>请先选择模型</translation>
    </message>
    <message>
      <source>Choose a model, then send it.</source>
      <translation>请选择模型，然后发送。</translation>
    </message>
    <message>
      <source>Choose the model that answers</source>
      <translation>选择用来回答的模型</translation>
    </message>
    <message>
      <source>Clear finished</source>
      <translation>清除已完成</translation>
    </message>
    <message>
      <source>Close</source>
      <translation>关闭</translation>
    </message>
    <message>
      <source>Command</source>
      <translation>命令</translation>
    </message>
    <message>
      <source>Command palette</source>
      <translation>命令面板</translation>
    </message>
    <message>
      <source>Compatibility engine: placement is per layer.</source>
      <translation>兼容引擎：按层放置。</translation>
    </message>
    <message>
      <source>Compatibility only</source>
      <translation>仅兼容引擎</translation>
    </message>
    <message>
      <source>Context</source>
      <translation>上下文</translation>
    </message>
    <message>
      <source>Context length</source>
      <translation>上下文长度</translation>
    </message>
    <message>
      <source>Context length in tokens</source>
      <translation>上下文长度（词元）</translation>
    </message>
    <message>
      <source>Context used at the end</source>
      <translation>结束时占用的上下文</translation>
    </message>
    <message>
      <source>Context: {count} tokens</source>
      <translation>上下文：{count} 个词元</translation>
    </message>
    <message>
      <source>Context: {used} of {all} tokens ({percent} %)</source>
      <translation>上下文：{used} / {all} 个词元（{percent} %）</translation>
    </message>
    <message>
      <source>Continue</source>
      <translation>继续</translation>
    </message>
    <message>
      <source>Conversation</source>
      <translation>对话</translation>
    </message>
    <message>
      <source>Conversations</source>
      <translation>对话列表</translation>
    </message>
    <message>
      <source>Conversations (*.json *.md)</source>
      <translation>对话文件 (*.json *.md)</translation>
    </message>
    <message>
      <source>Copies the findings without paths</source>
      <translation>复制检查结果，不含路径</translation>
    </message>
    <message>
      <source>Copy</source>
      <translation>复制</translation>
    </message>
    <message>
      <source>Copy as Markdown</source>
      <translation>复制为 Markdown</translation>
    </message>
    <message>
      <source>Copy code</source>
      <translation>复制代码</translation>
    </message>
    <message>
      <source>Copy link</source>
      <translation>复制链接</translation>
    </message>
    <message>
      <source>Copy the last answer</source>
      <translation>复制最后的回答</translation>
    </message>
    <message>
      <source>Copy without paths</source>
      <translation>复制（不含路径）</translation>
    </message>
    <message>
      <source>Corrupt</source>
      <translation>损坏</translation>
    </message>
    <message>
      <source>Crashed</source>
      <translation>曾崩溃</translation>
    </message>
    <message>
      <source>Creative</source>
      <translation>创意</translation>
    </message>
    <message>
      <source>Dark</source>
      <translation>深色</translation>
    </message>
    <message>
      <source>Days after which deleted conversations are removed for good, when Tessera starts.</source>
      <translation>删除的对话在多少天后于 Tessera 启动时彻底移除。</translation>
    </message>
    <message>
      <source>Decode</source>
      <translation>解码</translation>
    </message>
    <message>
      <source>Default</source>
      <translation>默认</translation>
    </message>
    <message>
      <source>Delete</source>
      <translation>删除</translation>
    </message>
    <message>
      <source>Delete a conversation (in the list)</source>
      <translation>删除对话（在列表中）</translation>
    </message>
    <message>
      <source>Delete for good</source>
      <translation>永久删除</translation>
    </message>
    <message>
      <source>Delete from here</source>
      <translation>从此处删除</translation>
    </message>
    <message>
      <source>Delete the model?</source>
      <translation>删除这个模型吗？</translation>
    </message>
    <message>
      <source>Delete this preset</source>
      <translation>删除此预设</translation>
    </message>
    <message>
      <source>Deleted conversations</source>
      <translation>已删除的对话</translation>
    </message>
    <message>
      <source>Deleted conversations are kept here.</source>
      <translation>已删除的对话保存在这里。</translation>
    </message>
    <message>
      <source>Deleted one message</source>
      <translation>已删除一条消息</translation>
    </message>
    <message>
      <source>Deleted {count} messages</source>
      <translation>已删除 {count} 条消息</translation>
    </message>
    <message>
      <source>Deleted “{title}”</source>
      <translation>已删除“{title}”</translation>
    </message>
    <message>
      <source>Delete…</source>
      <translation>删除…</translation>
    </message>
    <message>
      <source>Details</source>
      <translation>详情</translation>
    </message>
    <message>
      <source>Details of the answer</source>
      <translation>回答的详细信息</translation>
    </message>
    <message>
      <source>Discover</source>
      <translation>发现</translation>
    </message>
    <message>
      <source>Discover models</source>
      <translation>发现模型</translation>
    </message>
    <message>
      <source>Disk</source>
      <translation>磁盘</translation>
    </message>
    <message>
      <source>Disk reads</source>
      <translation>磁盘读取</translation>
    </message>
    <message>
      <source>Display</source>
      <translation>显示</translation>
    </message>
    <message>
      <source>Done</source>
      <translation>完成</translation>
    </message>
    <message>
      <source>Download</source>
      <translation>下载</translation>
    </message>
    <message>
      <source>Downloaded: {name}</source>
      <translation>已下载：{name}</translation>
    </message>
    <message>
      <source>Downloading</source>
      <translation>下载中</translation>
    </message>
    <message>
      <source>Downloading and checking…</source>
      <translation>正在下载并校验…</translation>
    </message>
    <message>
      <source>Downloads</source>
      <translation>下载</translation>
    </message>
    <message>
      <source>Downloads at the same time</source>
      <translation>同时下载数</translation>
    </message>
    <message>
      <source>Duplicate</source>
      <translation>复制一份</translation>
    </message>
    <message>
      <source>Earlier</source>
      <translation>更早</translation>
    </message>
    <message>
      <source>Earlier version</source>
      <translation>上一版本</translation>
    </message>
    <message>
      <source>Edit</source>
      <translation>编辑</translation>
    </message>
    <message>
      <source>Edit the message</source>
      <translation>编辑这条消息</translation>
    </message>
    <message>
      <source>Edit your last message (empty box)</source>
      <translation>编辑上一条消息（输入框为空时）</translation>
    </message>
    <message>
      <source>Editing: sending makes a new version, the old one is kept.</source>
      <translation>正在编辑：发送后生成新版本，旧版本会保留。</translation>
    </message>
    <message>
      <source>Empty the trash</source>
      <translation>清空回收站</translation>
    </message>
    <message>
      <source>Emulated</source>
      <translation>模拟设备</translation>
    </message>
    <message>
      <source>Ended</source>
      <translation>结束方式</translation>
    </message>
    <message>
      <source>Engine</source>
      <translation>引擎</translation>
    </message>
    <message>
      <source>Engine: {engine}</source>
      <translation>引擎：{engine}</translation>
    </message>
    <message>
      <source>English</source>
      <translation>English</translation>
    </message>
    <message>
      <source>Estimated from the size; press the row to read the file's own header.</source>
      <translation>根据大小估算；点击该行可读取文件自身的头信息。</translation>
    </message>
    <message>
      <source>Everything above is told to the model as this summary:</source>
      <translation>以上内容以此摘要告知模型：</translation>
    </message>
    <message>
      <source>Everything stays on this computer.</source>
      <translation>一切都留在这台电脑上。</translation>
    </message>
    <message>
      <source>Experts</source>
      <translation>专家</translation>
    </message>
    <message>
      <source>Export</source>
      <translation>导出</translation>
    </message>
    <message>
      <source>Export all</source>
      <translation>全部导出</translation>
    </message>
    <message>
      <source>Export all conversations…</source>
      <translation>导出所有对话…</translation>
    </message>
    <message>
      <source>Export as JSON…</source>
      <translation>导出为 JSON…</translation>
    </message>
    <message>
      <source>Export as Markdown…</source>
      <translation>导出为 Markdown…</translation>
    </message>
    <message>
      <source>Export settings</source>
      <translation>导出设置</translation>
    </message>
    <message>
      <source>Export settings…</source>
      <translation>导出设置…</translation>
    </message>
    <message>
      <source>Failed</source>
      <translation>失败</translation>
    </message>
    <message>
      <source>Failed starts</source>
      <translation>启动失败</translation>
    </message>
    <message>
      <source>Family</source>
      <translation>系列</translation>
    </message>
    <message>
      <source>Fetch the rest</source>
      <translation>获取其余部分</translation>
    </message>
    <message>
      <source>File names, addresses and access tokens are taken out</source>
      <translation>文件名、地址和访问令牌会被去掉</translation>
    </message>
    <message>
      <source>Files are counted in GB (10⁹ bytes), memory in GiB (2³⁰ bytes, 7 % more).</source>
      <translation>文件以 GB（10⁹ 字节）计，内存以 GiB（2³⁰ 字节，多 7%）计。</translation>
    </message>
    <message>
      <source>Find one in the library, open a GGUF file with the button at the top, or put one into {folder}.</source>
      <translation>在模型库中查找模型，用顶部的按钮打开 GGUF 文件，或将其放入 {folder}。</translation>
    </message>
    <message>
      <source>Find one under Discover, or drop a .gguf file here.</source>
      <translation>请在“发现”中查找，或将 .gguf 文件拖到这里。</translation>
    </message>
    <message>
      <source>Fold</source>
      <translation>折叠</translation>
    </message>
    <message>
      <source>Folded</source>
      <translation>已折叠</translation>
    </message>
    <message>
      <source>Folder</source>
      <translation>文件夹</translation>
    </message>
    <message>
      <source>Folder (empty: none)</source>
      <translation>文件夹（留空：无）</translation>
    </message>
    <message>
      <source>Follow the system, or always light or dark.</source>
      <translation>跟随系统，或始终使用浅色或深色。</translation>
    </message>
    <message>
      <source>For all downloads together, in kB per second. Automatic: as fast as it goes.</source>
      <translation>所有下载合计，单位 kB/秒。自动：不限速。</translation>
    </message>
    <message>
      <source>Form of the answer</source>
      <translation>回答的形式</translation>
    </message>
    <message>
      <source>Found</source>
      <translation>找到</translation>
    </message>
    <message>
      <source>Found in</source>
      <translation>所在位置</translation>
    </message>
    <message>
      <source>Frequency penalty</source>
      <translation>频率惩罚</translation>
    </message>
    <message>
      <source>From</source>
      <translation>来源</translation>
    </message>
    <message>
      <source>GGUF</source>
      <translation>GGUF</translation>
    </message>
    <message>
      <source>GGUF models (*.gguf);;All files (*)</source>
      <translation>GGUF 模型 (*.gguf);;所有文件 (*)</translation>
    </message>
    <message>
      <source>GPU</source>
      <translation>GPU</translation>
    </message>
    <message>
      <source>GPU memory</source>
      <translation>显存</translation>
    </message>
    <message>
      <source>GPU memory Tessera may use</source>
      <translation>Tessera 可用的显存</translation>
    </message>
    <message>
      <source>GPU memory Tessera may use, in GiB</source>
      <translation>Tessera 可用的显存（GiB）</translation>
    </message>
    <message>
      <source>GPU support</source>
      <translation>GPU 支持</translation>
    </message>
    <message>
      <source>GPU support is installed.</source>
      <translation>GPU 支持已安装。</translation>
    </message>
    <message>
      <source>GPU support is installed. Start Tessera again to use it.</source>
      <translation>GPU 支持已安装。重新启动 Tessera 即可使用。</translation>
    </message>
    <message>
      <source>GPU support is not installed.</source>
      <translation>GPU 支持尚未安装。</translation>
    </message>
    <message>
      <source>General</source>
      <translation>常规</translation>
    </message>
    <message>
      <source>Go on</source>
      <translation>继续</translation>
    </message>
    <message>
      <source>Good</source>
      <translation>良好</translation>
    </message>
    <message>
      <source>Grammar (GBNF)</source>
      <translation>语法（GBNF）</translation>
    </message>
    <message>
      <source>Graphics card</source>
      <translation>显卡</translation>
    </message>
    <message>
      <source>Help</source>
      <translation>帮助</translation>
    </message>
    <message>
      <source>Hide</source>
      <translation>收起</translation>
    </message>
    <message>
      <source>Hide the sidebar</source>
      <translation>隐藏侧边栏</translation>
    </message>
    <message>
      <source>Hit rate</source>
      <translation>命中率</translation>
    </message>
    <message>
      <source>How daring the choice of words is. 0 always takes the most likely one.</source>
      <translation>用词的大胆程度。0 表示总是选择最可能的词。</translation>
    </message>
    <message>
      <source>How many of the last tokens the penalties look at.</source>
      <translation>惩罚所考察的最近词元数量。</translation>
    </message>
    <message>
      <source>Hub address</source>
      <translation>模型中心地址</translation>
    </message>
    <message>
      <source>Hub cache</source>
      <translation>Hub 缓存</translation>
    </message>
    <message>
      <source>Import conversations</source>
      <translation>导入对话</translation>
    </message>
    <message>
      <source>Import conversations…</source>
      <translation>导入对话…</translation>
    </message>
    <message>
      <source>Import settings</source>
      <translation>导入设置</translation>
    </message>
    <message>
      <source>Import settings…</source>
      <translation>导入设置…</translation>
    </message>
    <message>
      <source>Import, export, trash</source>
      <translation>导入、导出、回收站</translation>
    </message>
    <message>
      <source>Imported</source>
      <translation>已导入</translation>
    </message>
    <message>
      <source>In pieces</source>
      <translation>分片</translation>
    </message>
    <message>
      <source>In tokens; the answer is ended there.</source>
      <translation>以词元计；回答到此为止。</translation>
    </message>
    <message>
      <source>In use</source>
      <translation>使用中</translation>
    </message>
    <message>
      <source>In your library</source>
      <translation>已在你的库中</translation>
    </message>
    <message>
      <source>Incomplete</source>
      <translation>不完整</translation>
    </message>
    <message>
      <source>Install</source>
      <translation>安装</translation>
    </message>
    <message>
      <source>Install Tessera again; if that does not help, please report it together with the log.</source>
      <translation>请重新安装 Tessera；如果没有帮助，请连同日志一起报告。</translation>
    </message>
    <message>
      <source>Install or remove what models need to run on an NVIDIA card.</source>
      <translation>安装或移除模型在 NVIDIA 显卡上运行所需的组件。</translation>
    </message>
    <message>
      <source>Install the package of your distribution that holds {library}.</source>
      <translation>请安装您的发行版中包含 {library} 的软件包。</translation>
    </message>
    <message>
      <source>Install the package {package}:  {command}</source>
      <translation>请安装软件包 {package}：  {command}</translation>
    </message>
    <message>
      <source>Instructions</source>
      <translation>指令</translation>
    </message>
    <message>
      <source>It is loaded now and will be unloaded first.</source>
      <translation>它正在使用中，将先被卸载。</translation>
    </message>
    <message>
      <source>It is not loaded by itself any more. It may run now, or after an update.</source>
      <translation>它不会再自动加载。现在或更新之后，也许可以运行。</translation>
    </message>
    <message>
      <source>It runs language models on this computer. What you write stays here.</source>
      <translation>它在这台电脑上运行语言模型。您写的内容都留在这里。</translation>
    </message>
    <message>
      <source>It was written to {path}. Your conversations are saved.</source>
      <translation>已写入 {path}。你的对话已保存。</translation>
    </message>
    <message>
      <source>Its files are shown here, and which of them run on this machine.</source>
      <translation>这里会显示它的文件，以及其中哪些能在本机运行。</translation>
    </message>
    <message>
      <source>Its text is kept.</source>
      <translation>文字已保留。</translation>
    </message>
    <message>
      <source>JSON schema</source>
      <translation>JSON 模式</translation>
    </message>
    <message>
      <source>KV cache</source>
      <translation>KV 缓存</translation>
    </message>
    <message>
      <source>Keep in RAM</source>
      <translation>保留在内存中</translation>
    </message>
    <message>
      <source>Keep on the GPU</source>
      <translation>保留在 GPU 上</translation>
    </message>
    <message>
      <source>Key</source>
      <translation>键</translation>
    </message>
    <message>
      <source>Keyboard shortcuts</source>
      <translation>键盘快捷键</translation>
    </message>
    <message>
      <source>Language</source>
      <translation>语言</translation>
    </message>
    <message>
      <source>Larger</source>
      <translation>更大</translation>
    </message>
    <message>
      <source>Larger text</source>
      <translation>放大文字</translation>
    </message>
    <message>
      <source>Largest safe</source>
      <translation>最大安全值</translation>
    </message>
    <message>
      <source>Last crash</source>
      <translation>上次崩溃</translation>
    </message>
    <message>
      <source>Last used</source>
      <translation>上次使用</translation>
    </message>
    <message>
      <source>Later</source>
      <translation>更晚</translation>
    </message>
    <message>
      <source>Later version</source>
      <translation>下一版本</translation>
    </message>
    <message>
      <source>Layers</source>
      <translation>层数</translation>
    </message>
    <message>
      <source>Leave in place</source>
      <translation>留在原处</translation>
    </message>
    <message>
      <source>Leave out the oldest</source>
      <translation>略去最早的消息</translation>
    </message>
    <message>
      <source>Leave out the oldest messages</source>
      <translation>略去最早的消息</translation>
    </message>
    <message>
      <source>Library</source>
      <translation>模型库</translation>
    </message>
    <message>
      <source>Light</source>
      <translation>浅色</translation>
    </message>
    <message>
      <source>Light or dark theme</source>
      <translation>切换浅色或深色主题</translation>
    </message>
    <message>
      <source>Like the system</source>
      <translation>跟随系统</translation>
    </message>
    <message>
      <source>Likes</source>
      <translation>点赞数</translation>
    </message>
    <message>
      <source>Limits</source>
      <translation>限制</translation>
    </message>
    <message>
      <source>Load</source>
      <translation>加载</translation>
    </message>
    <message>
      <source>Load a model, and this page shows where each of its tensors and experts lies and what memory would buy.</source>
      <translation>加载模型后，此页会显示每个张量和专家的位置，以及更多内存能带来什么。</translation>
    </message>
    <message>
      <source>Load again with it</source>
      <translation>以此重新加载</translation>
    </message>
    <message>
      <source>Load it anyway</source>
      <translation>仍然加载</translation>
    </message>
    <message>
      <source>Load it anyway, or choose another model.</source>
      <translation>仍然加载，或选择其他模型。</translation>
    </message>
    <message>
      <source>Load the model again</source>
      <translation>重新加载模型</translation>
    </message>
    <message>
      <source>Load the model again with these settings</source>
      <translation>用这些设置重新加载模型</translation>
    </message>
    <message>
      <source>Load with {count} tokens of context</source>
      <translation>以 {count} 个词元的上下文加载</translation>
    </message>
    <message>
      <source>Load {name}</source>
      <translation>加载 {name}</translation>
    </message>
    <message>
      <source>Loaded</source>
      <translation>已加载</translation>
    </message>
    <message>
      <source>Loading the model</source>
      <translation>正在加载模型</translation>
    </message>
    <message>
      <source>Loading {name}… {percent} %</source>
      <translation>正在加载 {name}… {percent} %</translation>
    </message>
    <message>
      <source>Log: {path}</source>
      <translation>日志：{path}</translation>
    </message>
    <message>
      <source>Logs</source>
      <translation>日志</translation>
    </message>
    <message>
      <source>Longest answer</source>
      <translation>回答的最大长度</translation>
    </message>
    <message>
      <source>Look at it</source>
      <translation>查看</translation>
    </message>
    <message>
      <source>Look at {model}</source>
      <translation>查看 {model}</translation>
    </message>
    <message>
      <source>Look for updates</source>
      <translation>检查更新</translation>
    </message>
    <message>
      <source>Look through the folders again</source>
      <translation>重新扫描文件夹</translation>
    </message>
    <message>
      <source>Looking at this computer…</source>
      <translation>正在了解这台电脑…</translation>
    </message>
    <message>
      <source>Looking for models…</source>
      <translation>正在查找模型…</translation>
    </message>
    <message>
      <source>Lower the budget to {size}</source>
      <translation>将预算降到 {size}</translation>
    </message>
    <message>
      <source>MMMM yyyy</source>
      <translation>yyyy年M月</translation>
    </message>
    <message>
      <source>Make room, and the answer goes on.</source>
      <translation>腾出空间后，回答会继续。</translation>
    </message>
    <message>
      <source>Makes tokens that were used lately less likely. 1 does nothing.</source>
      <translation>降低最近用过的词元的概率。1 表示不起作用。</translation>
    </message>
    <message>
      <source>Map of tensors and experts</source>
      <translation>张量与专家分布图</translation>
    </message>
    <message>
      <source>Measure again</source>
      <translation>重新测量</translation>
    </message>
    <message>
      <source>Measure this machine</source>
      <translation>测量本机</translation>
    </message>
    <message>
      <source>Measured at a depth of {depth} tokens</source>
      <translation>在 {depth} 个词元的深度测得</translation>
    </message>
    <message>
      <source>Measured faster than planned: {device} takes {times} times as long.</source>
      <translation>实测比计划快：{device}用时为计划的 {times} 倍。</translation>
    </message>
    <message>
      <source>Measured slower than planned: {device} takes {times} times as long.</source>
      <translation>实测比计划慢：{device}用时为计划的 {times} 倍。</translation>
    </message>
    <message>
      <source>Measures this machine once: a few seconds of full load. Nothing is sent anywhere.</source>
      <translation>对本机测量一次：满载数秒。不会向任何地方发送内容。</translation>
    </message>
    <message>
      <source>Measuring this machine: {what}</source>
      <translation>正在测量本机：{what}</translation>
    </message>
    <message>
      <source>Measuring…</source>
      <translation>正在测量…</translation>
    </message>
    <message>
      <source>Memory</source>
      <translation>内存</translation>
    </message>
    <message>
      <source>Message</source>
      <translation>消息</translation>
    </message>
    <message>
      <source>Metadata</source>
      <translation>元数据</translation>
    </message>
    <message>
      <source>MiB of RAM that Tessera may take; a model that needs more is refused. Automatic: what the machine has.</source>
      <translation>Tessera 可占用的内存（MiB）；需要更多内存的模型将被拒绝。自动：按本机内存。</translation>
    </message>
    <message>
      <source>Min-p</source>
      <translation>Min-p</translation>
    </message>
    <message>
      <source>Minimum</source>
      <translation>最小值</translation>
    </message>
    <message>
      <source>Model</source>
      <translation>模型</translation>
    </message>
    <message>
      <source>Model: {name}</source>
      <translation>模型：{name}</translation>
    </message>
    <message>
      <source>Models folder</source>
      <translation>模型文件夹</translation>
    </message>
    <message>
      <source>Models found</source>
      <translation>找到的模型</translation>
    </message>
    <message>
      <source>Models make mistakes. Check what matters.</source>
      <translation>模型会出错，重要内容请核对。</translation>
    </message>
    <message>
      <source>Models on this machine</source>
      <translation>本机上的模型</translation>
    </message>
    <message>
      <source>Models that are here already: {count}.</source>
      <translation>已有的模型：{count} 个。</translation>
    </message>
    <message>
      <source>Models that suit it</source>
      <translation>适合这台电脑的模型</translation>
    </message>
    <message>
      <source>More</source>
      <translation>更多</translation>
    </message>
    <message>
      <source>Move</source>
      <translation>移动</translation>
    </message>
    <message>
      <source>Move into the models folder, or leave in place?</source>
      <translation>移入模型文件夹，还是留在原处？</translation>
    </message>
    <message>
      <source>Move the models folder…</source>
      <translation>移动模型文件夹…</translation>
    </message>
    <message>
      <source>Move to a folder</source>
      <translation>移动到文件夹</translation>
    </message>
    <message>
      <source>Move to a folder…</source>
      <translation>移动到文件夹…</translation>
    </message>
    <message>
      <source>Moving {count} experts, {done} of {total}, for a budget of {size} …</source>
      <translation>正在为 {size} 的预算移动 {count} 个专家：{done} / {total}……</translation>
    </message>
    <message>
      <source>Moving {done} of {total} for a budget of {size} …</source>
      <translation>正在为 {size} 的预算移动：{done} / {total}……</translation>
    </message>
    <message>
      <source>My models</source>
      <translation>我的模型</translation>
    </message>
    <message>
      <source>NVIDIA GPU</source>
      <translation>NVIDIA 显卡</translation>
    </message>
    <message>
      <source>Name</source>
      <translation>名称</translation>
    </message>
    <message>
      <source>Native only</source>
      <translation>仅原生引擎</translation>
    </message>
    <message>
      <source>Needed for gated and private repositories only. It is kept in the system's keyring and sent to this address, never to another one.</source>
      <translation>仅受限和私有仓库需要。它保存在系统的密钥环中，只发送到此地址，绝不发往别处。</translation>
    </message>
    <message>
      <source>Network</source>
      <translation>网络</translation>
    </message>
    <message>
      <source>Never</source>
      <translation>从不</translation>
    </message>
    <message>
      <source>New conversation</source>
      <translation>新对话</translation>
    </message>
    <message>
      <source>Newest</source>
      <translation>最新</translation>
    </message>
    <message>
      <source>Next message</source>
      <translation>下一条消息</translation>
    </message>
    <message>
      <source>No NVIDIA card was found. Models run on the processor, which is fine for small ones.</source>
      <translation>没有找到 NVIDIA 显卡。模型在处理器上运行，小模型没有问题。</translation>
    </message>
    <message>
      <source>No address for updates is set under Settings, Privacy, so nobody is asked.</source>
      <translation>“设置 → 隐私”中没有填写更新地址，因此不会向任何人查询。</translation>
    </message>
    <message>
      <source>No answer came.</source>
      <translation>没有给出回答。</translation>
    </message>
    <message>
      <source>No model is here yet: look for one, or open a file of yours.</source>
      <translation>这里还没有模型：查找一个，或打开您自己的文件。</translation>
    </message>
    <message>
      <source>No model is loaded</source>
      <translation>尚未加载模型</translation>
    </message>
    <message>
      <source>No model is loaded, so nobody can answer.</source>
      <translation>没有加载模型，无法回答。</translation>
    </message>
    <message>
      <source>No model yet</source>
      <translation>还没有模型</translation>
    </message>
    <message>
      <source>No models in the models folder yet</source>
      <translation>模型文件夹中还没有模型</translation>
    </message>
    <message>
      <source>No models yet</source>
      <translation>还没有模型</translation>
    </message>
    <message>
      <source>No setting has these words.</source>
      <translation>没有包含这些字词的设置。</translation>
    </message>
    <message>
      <source>No token is kept any more.</source>
      <translation>不再保存令牌。</translation>
    </message>
    <message>
      <source>None</source>
      <translation>无</translation>
    </message>
    <message>
      <source>None of the suggested models fits into the memory; the starter model does.</source>
      <translation>推荐的模型都放不进内存；入门模型可以。</translation>
    </message>
    <message>
      <source>Note</source>
      <translation>提示</translation>
    </message>
    <message>
      <source>Nothing found</source>
      <translation>没有找到</translation>
    </message>
    <message>
      <source>Nothing is being downloaded. Choose a model under Discover.</source>
      <translation>当前没有下载。请在“发现”中选择模型。</translation>
    </message>
    <message>
      <source>Nothing on the hub is called like that.</source>
      <translation>模型中心中没有这个名称。</translation>
    </message>
    <message>
      <source>Nothing was changed.</source>
      <translation>未做任何更改。</translation>
    </message>
    <message>
      <source>Nothing was written.</source>
      <translation>没有任何记录。</translation>
    </message>
    <message>
      <source>Notifications</source>
      <translation>通知</translation>
    </message>
    <message>
      <source>Of menus, buttons and messages.</source>
      <translation>菜单、按钮和消息的语言。</translation>
    </message>
    <message>
      <source>Of the keys and values that are kept of each token. In 8 bits they take 53 % of the memory, and SmolLM2's perplexity rises by 0.03 %.</source>
      <translation>每个词元保留的键和值的精度。8 位时只占 53 % 的内存，SmolLM2 的困惑度上升 0.03 %。</translation>
    </message>
    <message>
      <source>Off</source>
      <translation>关</translation>
    </message>
    <message>
      <source>Offline mode</source>
      <translation>离线模式</translation>
    </message>
    <message>
      <source>On</source>
      <translation>开</translation>
    </message>
    <message>
      <source>On an NVIDIA card Tessera's kernels are compiled once, by NVIDIA's compiler library NVRTC. It is fetched from the Python package index when you ask for it, checked, and kept in your data folder.</source>
      <translation>在 NVIDIA 显卡上，Tessera 的内核由 NVIDIA 的编译库 NVRTC 编译一次。它只在您要求时从 Python 软件包索引下载、校验，并保存在您的数据文件夹中。</translation>
    </message>
    <message>
      <source>Once a week, ask the address below for the newest version. The request says nothing of you or this computer.</source>
      <translation>每周向下面的地址查询一次最新版本。请求中不包含关于您或这台电脑的任何信息。</translation>
    </message>
    <message>
      <source>One a line; the answer ends before the first that appears.</source>
      <translation>每行一个；回答在最先出现的那个之前结束。</translation>
    </message>
    <message>
      <source>One step on the clock</source>
      <translation>一步的时间线</translation>
    </message>
    <message>
      <source>Only the k most likely tokens are considered.</source>
      <translation>只考虑概率最高的 k 个词元。</translation>
    </message>
    <message>
      <source>Only the most likely tokens that together have this probability are considered.</source>
      <translation>只考虑累计概率达到此值的最可能词元。</translation>
    </message>
    <message>
      <source>Open</source>
      <translation>打开</translation>
    </message>
    <message>
      <source>Open a link</source>
      <translation>打开链接</translation>
    </message>
    <message>
      <source>Open a model</source>
      <translation>打开模型</translation>
    </message>
    <message>
      <source>Open a model file of mine…</source>
      <translation>打开我的模型文件…</translation>
    </message>
    <message>
      <source>Open a model file…</source>
      <translation>打开模型文件…</translation>
    </message>
    <message>
      <source>Open its page</source>
      <translation>打开其页面</translation>
    </message>
    <message>
      <source>Open the folder</source>
      <translation>打开文件夹</translation>
    </message>
    <message>
      <source>Open the library</source>
      <translation>打开模型库</translation>
    </message>
    <message>
      <source>Open this address in your browser?</source>
      <translation>在浏览器中打开此地址吗？</translation>
    </message>
    <message>
      <source>Order</source>
      <translation>排序</translation>
    </message>
    <message>
      <source>Other programs want the card too, or the budget is too large.</source>
      <translation>其他程序也在使用该显卡，或者预算过大。</translation>
    </message>
    <message>
      <source>PCIe to GPU</source>
      <translation>PCIe 至 GPU</translation>
    </message>
    <message>
      <source>PCIe to RAM</source>
      <translation>PCIe 至内存</translation>
    </message>
    <message>
      <source>PCIe {rates}</source>
      <translation>PCIe {rates}</translation>
    </message>
    <message>
      <source>Parameters</source>
      <translation>参数</translation>
    </message>
    <message>
      <source>Pasted text</source>
      <translation>粘贴的文本</translation>
    </message>
    <message>
      <source>Pause</source>
      <translation>暂停</translation>
    </message>
    <message>
      <source>Pause all</source>
      <translation>全部暂停</translation>
    </message>
    <message>
      <source>Paused</source>
      <translation>已暂停</translation>
    </message>
    <message>
      <source>Penalised tokens</source>
      <translation>惩罚的词元数</translation>
    </message>
    <message>
      <source>Pin to the top</source>
      <translation>置顶</translation>
    </message>
    <message>
      <source>Pinned</source>
      <translation>置顶</translation>
    </message>
    <message>
      <source>Place</source>
      <translation>位置</translation>
    </message>
    <message>
      <source>Planned with the use of the experts in the last answers, about {tokens} tokens.</source>
      <translation>依据最近回答（约 {tokens} 个词元）中专家的使用情况规划。</translation>
    </message>
    <message>
      <source>Planning…</source>
      <translation>正在规划…</translation>
    </message>
    <message>
      <source>Please report it together with the log.</source>
      <translation>请连同日志一起报告。</translation>
    </message>
    <message>
      <source>Point at a cell, or move with the arrow keys: what it is, and why it is there. Press it to pin it.</source>
      <translation>指向一个格子，或用方向键移动：可看到它是什么以及原因。按下即可固定它。</translation>
    </message>
    <message>
      <source>Precise</source>
      <translation>精确</translation>
    </message>
    <message>
      <source>Precision of the context</source>
      <translation>上下文精度</translation>
    </message>
    <message>
      <source>Predict speeds</source>
      <translation>预测速度</translation>
    </message>
    <message>
      <source>Predicted for the card that is emulated; measured on this processor, which plays it</source>
      <translation>为被模拟的显卡预测；实测值来自扮演它的本机处理器</translation>
    </message>
    <message>
      <source>Predicted from datasheets, not from measured rates</source>
      <translation>依据产品规格预测，而非实测速率</translation>
    </message>
    <message>
      <source>Predicted from measured rates of the processor and the GPU's datasheet</source>
      <translation>依据处理器实测速率与 GPU 产品规格预测</translation>
    </message>
    <message>
      <source>Predicted from rates measured on this machine</source>
      <translation>依据本机实测速率预测</translation>
    </message>
    <message>
      <source>Prediction</source>
      <translation>预测</translation>
    </message>
    <message>
      <source>Prefill</source>
      <translation>预填充</translation>
    </message>
    <message>
      <source>Presence penalty</source>
      <translation>存在惩罚</translation>
    </message>
    <message>
      <source>Preset</source>
      <translation>预设</translation>
    </message>
    <message>
      <source>Previous 30 days</source>
      <translation>过去 30 天</translation>
    </message>
    <message>
      <source>Previous 7 days</source>
      <translation>过去 7 天</translation>
    </message>
    <message>
      <source>Previous message</source>
      <translation>上一条消息</translation>
    </message>
    <message>
      <source>Privacy</source>
      <translation>隐私</translation>
    </message>
    <message>
      <source>Problem</source>
      <translation>问题</translation>
    </message>
    <message>
      <source>Processor</source>
      <translation>处理器</translation>
    </message>
    <message>
      <source>Processor threads used for computing, at most one for each logical processor. Automatic: one for each fast physical core.</source>
      <translation>用于计算的处理器线程数，最多为逻辑处理器的数量。自动：每个高性能物理核心一个。</translation>
    </message>
    <message>
      <source>Prompt</source>
      <translation>提示</translation>
    </message>
    <message>
      <source>Proxy</source>
      <translation>代理</translation>
    </message>
    <message>
      <source>Quantisation</source>
      <translation>量化</translation>
    </message>
    <message>
      <source>Queued</source>
      <translation>排队中</translation>
    </message>
    <message>
      <source>Quit</source>
      <translation>退出</translation>
    </message>
    <message>
      <source>RAM</source>
      <translation>内存</translation>
    </message>
    <message>
      <source>RAM Tessera may use, in GiB</source>
      <translation>Tessera 可用的内存（GiB）</translation>
    </message>
    <message>
      <source>RAM {size}</source>
      <translation>内存 {size}</translation>
    </message>
    <message>
      <source>Read the description</source>
      <translation>阅读说明</translation>
    </message>
    <message>
      <source>Read this file's own header</source>
      <translation>读取该文件自身的文件头</translation>
    </message>
    <message>
      <source>Reading the prompt: {done} of {all} tokens</source>
      <translation>正在读取提示词：{done} / {all} 个词元</translation>
    </message>
    <message>
      <source>Ready</source>
      <translation>就绪</translation>
    </message>
    <message>
      <source>Reasoning</source>
      <translation>推理</translation>
    </message>
    <message>
      <source>Recommended</source>
      <translation>推荐</translation>
    </message>
    <message>
      <source>Refresh</source>
      <translation>刷新</translation>
    </message>
    <message>
      <source>Remove</source>
      <translation>移除</translation>
    </message>
    <message>
      <source>Remove {name}</source>
      <translation>移除 {name}</translation>
    </message>
    <message>
      <source>Rename</source>
      <translation>重命名</translation>
    </message>
    <message>
      <source>Rename a conversation (in the list)</source>
      <translation>重命名对话（在列表中）</translation>
    </message>
    <message>
      <source>Rename…</source>
      <translation>重命名…</translation>
    </message>
    <message>
      <source>Repetition penalty</source>
      <translation>重复惩罚</translation>
    </message>
    <message>
      <source>Reset all settings</source>
      <translation>重置所有设置</translation>
    </message>
    <message>
      <source>Reset {name}</source>
      <translation>重置“{name}”</translation>
    </message>
    <message>
      <source>Reset, export, import</source>
      <translation>重置、导出、导入</translation>
    </message>
    <message>
      <source>Restore</source>
      <translation>恢复</translation>
    </message>
    <message>
      <source>Resume</source>
      <translation>继续</translation>
    </message>
    <message>
      <source>Resume all</source>
      <translation>全部继续</translation>
    </message>
    <message>
      <source>Runs on</source>
      <translation>运行于</translation>
    </message>
    <message>
      <source>Sampling</source>
      <translation>采样</translation>
    </message>
    <message>
      <source>Save a report</source>
      <translation>保存报告</translation>
    </message>
    <message>
      <source>Save a report…</source>
      <translation>保存报告…</translation>
    </message>
    <message>
      <source>Save as a preset</source>
      <translation>存为预设</translation>
    </message>
    <message>
      <source>Save as a preset…</source>
      <translation>存为预设…</translation>
    </message>
    <message>
      <source>Save or delete a preset</source>
      <translation>保存或删除预设</translation>
    </message>
    <message>
      <source>Save the token</source>
      <translation>保存令牌</translation>
    </message>
    <message>
      <source>Search</source>
      <translation>搜索</translation>
    </message>
    <message>
      <source>Search all conversations</source>
      <translation>搜索所有对话</translation>
    </message>
    <message>
      <source>Search my models</source>
      <translation>搜索我的模型</translation>
    </message>
    <message>
      <source>Search settings</source>
      <translation>搜索设置</translation>
    </message>
    <message>
      <source>Search the hub</source>
      <translation>搜索模型中心</translation>
    </message>
    <message>
      <source>Search the metadata</source>
      <translation>搜索元数据</translation>
    </message>
    <message>
      <source>Search your models</source>
      <translation>搜索你的模型</translation>
    </message>
    <message>
      <source>Search, e.g. “qwen 30b”</source>
      <translation>搜索，例如“qwen 30b”</translation>
    </message>
    <message>
      <source>Searching…</source>
      <translation>正在搜索…</translation>
    </message>
    <message>
      <source>Second device</source>
      <translation>第二设备</translation>
    </message>
    <message>
      <source>Seed</source>
      <translation>随机种子</translation>
    </message>
    <message>
      <source>Select all</source>
      <translation>全选</translation>
    </message>
    <message>
      <source>Send</source>
      <translation>发送</translation>
    </message>
    <message>
      <source>Send the message</source>
      <translation>发送消息</translation>
    </message>
    <message>
      <source>Settings</source>
      <translation>设置</translation>
    </message>
    <message>
      <source>Shard {numbers} is not in the repository.</source>
      <translation>仓库中没有分片 {numbers}。</translation>
    </message>
    <message>
      <source>Shard {numbers} missing</source>
      <translation>缺少分片 {numbers}</translation>
    </message>
    <message>
      <source>Show</source>
      <translation>显示</translation>
    </message>
    <message>
      <source>Show it on</source>
      <translation>显示为</translation>
    </message>
    <message>
      <source>Show memory and placement</source>
      <translation>显示内存与放置</translation>
    </message>
    <message>
      <source>Show the file</source>
      <translation>显示文件</translation>
    </message>
    <message>
      <source>Show the models folder</source>
      <translation>显示模型文件夹</translation>
    </message>
    <message>
      <source>Show the parameters</source>
      <translation>显示参数</translation>
    </message>
    <message>
      <source>Show the sidebar</source>
      <translation>显示侧边栏</translation>
    </message>
    <message>
      <source>Show this model on</source>
      <translation>假设此模型运行于</translation>
    </message>
    <message>
      <source>Shown as (the file keeps its name):</source>
      <translation>显示为（文件名不变）：</translation>
    </message>
    <message>
      <source>Sidebar</source>
      <translation>侧边栏</translation>
    </message>
    <message>
      <source>Simulated for the compatibility engine, from rates of this machine and published speeds</source>
      <translation>依据本机速率与公开发表的速度，为兼容引擎模拟得出</translation>
    </message>
    <message>
      <source>Size</source>
      <translation>大小</translation>
    </message>
    <message>
      <source>Size of the conversation's text in pixels.</source>
      <translation>对话文字的大小，单位像素。</translation>
    </message>
    <message>
      <source>Small and quick.</source>
      <translation>小而快。</translation>
    </message>
    <message>
      <source>Small models work best; more needs a processor with AVX2, as most have since 2013.</source>
      <translation>小型模型效果最好；更大的模型需要支持 AVX2 的处理器（2013 年以后的大多数处理器都支持）。</translation>
    </message>
    <message>
      <source>Smaller</source>
      <translation>更小</translation>
    </message>
    <message>
      <source>Smaller text</source>
      <translation>缩小文字</translation>
    </message>
    <message>
      <source>Something unexpected went wrong: {error}</source>
      <translation>发生意外错误：{error}</translation>
    </message>
    <message>
      <source>Speed limit</source>
      <translation>限速</translation>
    </message>
    <message>
      <source>Speeds are predicted from datasheets of similar computers, and not measured.</source>
      <translation>速度根据类似电脑的规格预测，并非实测。</translation>
    </message>
    <message>
      <source>Speeds are predicted from this computer's measured memory speed, and not measured with the model.</source>
      <translation>速度根据这台电脑实测的内存速度预测，并非用该模型实测。</translation>
    </message>
    <message>
      <source>Start chatting</source>
      <translation>开始聊天</translation>
    </message>
    <message>
      <source>Start the engine again</source>
      <translation>重新启动引擎</translation>
    </message>
    <message>
      <source>State</source>
      <translation>状态</translation>
    </message>
    <message>
      <source>Stop</source>
      <translation>停止</translation>
    </message>
    <message>
      <source>Stop  {percent} %</source>
      <translation>停止  {percent} %</translation>
    </message>
    <message>
      <source>Stop here</source>
      <translation>到此为止</translation>
    </message>
    <message>
      <source>Stop loading</source>
      <translation>停止加载</translation>
    </message>
    <message>
      <source>Stop strings</source>
      <translation>停止字符串</translation>
    </message>
    <message>
      <source>Stop the answer, or leave an edit</source>
      <translation>停止回答，或退出编辑</translation>
    </message>
    <message>
      <source>Stopping…</source>
      <translation>正在停止…</translation>
    </message>
    <message>
      <source>Summarise the oldest messages</source>
      <translation>概括最早的消息</translation>
    </message>
    <message>
      <source>Summarising the oldest messages…</source>
      <translation>正在概括最早的消息…</translation>
    </message>
    <message>
      <source>System</source>
      <translation>系统</translation>
    </message>
    <message>
      <source>System prompt</source>
      <translation>系统提示词</translation>
    </message>
    <message>
      <source>Taken from a token for each time it was used.</source>
      <translation>词元每用过一次便减去此值。</translation>
    </message>
    <message>
      <source>Taken from a token once it was used at all.</source>
      <translation>词元只要用过便减去此值。</translation>
    </message>
    <message>
      <source>Takes effect after a restart.</source>
      <translation>重启后生效。</translation>
    </message>
    <message>
      <source>Takes effect when a model is loaded.</source>
      <translation>加载模型时生效。</translation>
    </message>
    <message>
      <source>Takes the whole processor for up to ten seconds; best while nothing else is going on.</source>
      <translation>将占用整个处理器最多十秒；最好在空闲时进行。</translation>
    </message>
    <message>
      <source>Tell when a long answer or a download has ended while another window is used.</source>
      <translation>使用其他窗口时，长回答或下载结束后通知。</translation>
    </message>
    <message>
      <source>Temperature</source>
      <translation>温度</translation>
    </message>
    <message>
      <source>Tensors and experts</source>
      <translation>张量与专家</translation>
    </message>
    <message>
      <source>Tessera asks for a newer version only when you press the button, or once a week if you switch that on under Settings, Privacy. The request says nothing of you or of this computer; nothing is installed.</source>
      <translation>只有当您按下按钮，或在“设置 → 隐私”中打开每周检查时，Tessera 才会查询新版本。请求中不包含关于您或这台电脑的任何信息；不会安装任何东西。</translation>
    </message>
    <message>
      <source>Tessera could not start: {error}</source>
      <translation>Tessera 无法启动：{error}</translation>
    </message>
    <message>
      <source>Tessera crashed the last time.</source>
      <translation>Tessera 上次崩溃了。</translation>
    </message>
    <message>
      <source>Tessera crashed while {name} was loaded.</source>
      <translation>Tessera 在加载了 {name} 时崩溃。</translation>
    </message>
    <message>
      <source>Tessera ended while it was loading {name}.</source>
      <translation>Tessera 在加载 {name} 时意外结束。</translation>
    </message>
    <message>
      <source>Tessera ended while this answer was being written. What had come is kept.</source>
      <translation>Tessera 在撰写此回答时结束，已有内容得到保留。</translation>
    </message>
    <message>
      <source>Tessera has crashed {count} times with {name}.</source>
      <translation>Tessera 使用 {name} 时已崩溃 {count} 次。</translation>
    </message>
    <message>
      <source>Tessera is running already, but its window does not answer.</source>
      <translation>Tessera 已在运行，但其窗口没有响应。</translation>
    </message>
    <message>
      <source>Tessera is working</source>
      <translation>Tessera 正在工作</translation>
    </message>
    <message>
      <source>Tessera uses its plainest kernels here.</source>
      <translation>Tessera 在这里使用最基本的内核。</translation>
    </message>
    <message>
      <source>Tessera {version} is out.</source>
      <translation>Tessera {version} 已发布。</translation>
    </message>
    <message>
      <source>Tessera's own engine</source>
      <translation>Tessera 自己的引擎</translation>
    </message>
    <message>
      <source>Test the connection</source>
      <translation>测试连接</translation>
    </message>
    <message>
      <source>Text size</source>
      <translation>文字大小</translation>
    </message>
    <message>
      <source>Text, code and PDF (*)</source>
      <translation>文本、代码和 PDF (*)</translation>
    </message>
    <message>
      <source>The answer is forced to be JSON of this form.</source>
      <translation>强制回答为此形式的 JSON。</translation>
    </message>
    <message>
      <source>The answer is forced to match it. Not together with a JSON schema.</source>
      <translation>强制回答符合此语法。不能与 JSON 模式同用。</translation>
    </message>
    <message>
      <source>The budget before, {size}, is in force again.</source>
      <translation>先前的预算 {size} 重新生效。</translation>
    </message>
    <message>
      <source>The button at the top lists the models on this computer.</source>
      <translation>顶部的按钮列出本机上的模型。</translation>
    </message>
    <message>
      <source>The context is full, so the answer ended here.</source>
      <translation>上下文已满，回答到此结束。</translation>
    </message>
    <message>
      <source>The data in {path} was written by a newer version of Tessera.</source>
      <translation>{path} 中的数据由更新版本的 Tessera 写入。</translation>
    </message>
    <message>
      <source>The download was interrupted.</source>
      <translation>下载已中断。</translation>
    </message>
    <message>
      <source>The driver has moved {size} of the card's memory to RAM: answers are slower.</source>
      <translation>驱动程序已将显卡内存中的 {size} 移到系统内存：回答会变慢。</translation>
    </message>
    <message>
      <source>The file can be read to its end. There is no checksum to compare it with.</source>
      <translation>文件可以完整读取，但没有可供比对的校验和。</translation>
    </message>
    <message>
      <source>The first {count} repositories</source>
      <translation>前 {count} 个仓库</translation>
    </message>
    <message>
      <source>The folder {path} cannot be used: {error}.</source>
      <translation>无法使用文件夹 {path}：{error}。</translation>
    </message>
    <message>
      <source>The https address of a release file. Empty: nobody is asked.</source>
      <translation>发布文件的 https 地址。留空：不向任何人查询。</translation>
    </message>
    <message>
      <source>The last minute</source>
      <translation>最近一分钟</translation>
    </message>
    <message>
      <source>The model was not loaded again on its own.</source>
      <translation>模型没有自动重新加载。</translation>
    </message>
    <message>
      <source>The most able.</source>
      <translation>能力最强。</translation>
    </message>
    <message>
      <source>The others wait in the queue.</source>
      <translation>其余的在队列中等待。</translation>
    </message>
    <message>
      <source>The page as a picture…</source>
      <translation>将页面存为图片……</translation>
    </message>
    <message>
      <source>The projector for images (mmproj) in this repository is no model and is not listed.</source>
      <translation>此仓库中的图像投影器（mmproj）不是模型，因此未列出。</translation>
    </message>
    <message>
      <source>The report was saved.</source>
      <translation>报告已保存。</translation>
    </message>
    <message>
      <source>The same seed gives the same answer to the same conversation.</source>
      <translation>相同的种子对相同的对话给出相同的回答。</translation>
    </message>
    <message>
      <source>The settings could not be saved: {error}.</source>
      <translation>无法保存设置：{error}。</translation>
    </message>
    <message>
      <source>The settings were read from {path}.</source>
      <translation>已从 {path} 读取设置。</translation>
    </message>
    <message>
      <source>The settings were written to {path}.</source>
      <translation>设置已写入 {path}。</translation>
    </message>
    <message>
      <source>The system library {library} is missing, and no window can open without it.</source>
      <translation>缺少系统库 {library}，没有它无法打开窗口。</translation>
    </message>
    <message>
      <source>The table as CSV…</source>
      <translation>将表格存为 CSV……</translation>
    </message>
    <message>
      <source>The timeline as CSV…</source>
      <translation>将时间线存为 CSV……</translation>
    </message>
    <message>
      <source>The timeline as a Chrome trace…</source>
      <translation>将时间线存为 Chrome trace……</translation>
    </message>
    <message>
      <source>The timeline as a picture…</source>
      <translation>将时间线存为图片……</translation>
    </message>
    <message>
      <source>The token is kept.</source>
      <translation>令牌已保存。</translation>
    </message>
    <message>
      <source>The trash is empty.</source>
      <translation>回收站为空。</translation>
    </message>
    <message>
      <source>The whole conversation</source>
      <translation>整个对话</translation>
    </message>
    <message>
      <source>Theme</source>
      <translation>主题</translation>
    </message>
    <message>
      <source>There are no NVIDIA cards for this system.</source>
      <translation>此系统没有可用的 NVIDIA 显卡。</translation>
    </message>
    <message>
      <source>There is no GGUF model in this repository.</source>
      <translation>此仓库中没有 GGUF 模型。</translation>
    </message>
    <message>
      <source>There is no GPU that Tessera can use: all is in RAM. Choose a card above to see what it would do.</source>
      <translation>没有 Tessera 可用的 GPU：全部位于内存中。可在上方选择一张显卡，看看效果如何。</translation>
    </message>
    <message>
      <source>There is no description.</source>
      <translation>没有说明。</translation>
    </message>
    <message>
      <source>There is no newer version.</source>
      <translation>没有更新的版本。</translation>
    </message>
    <message>
      <source>These files need {total} tokens, and the context holds {room}. Remove some, or load the model with a longer context.</source>
      <translation>这些文件需要 {total} 个词元，而上下文只能容纳 {room} 个。请移除一些，或用更长的上下文加载模型。</translation>
    </message>
    <message>
      <source>Thinking</source>
      <translation>思考</translation>
    </message>
    <message>
      <source>Thinking…</source>
      <translation>正在思考…</translation>
    </message>
    <message>
      <source>This GPU has no memory of its own: what it uses stands under RAM.</source>
      <translation>该 GPU 没有独立显存：其用量计入内存。</translation>
    </message>
    <message>
      <source>This computer</source>
      <translation>这台电脑</translation>
    </message>
    <message>
      <source>This conversation asks for a context of {count} tokens; the model was loaded with {other}.</source>
      <translation>此对话需要 {count} 个词元的上下文，而模型是以 {other} 个词元加载的。</translation>
    </message>
    <message>
      <source>This conversation was held with {name}; now {other} answers.</source>
      <translation>此对话使用的是 {name}，现在由 {other} 回答。</translation>
    </message>
    <message>
      <source>This is Tessera {version}.</source>
      <translation>当前为 Tessera {version}。</translation>
    </message>
    <message>
      <source>This machine</source>
      <translation>本机</translation>
    </message>
    <message>
      <source>This processor is too old for Tessera: it lacks {features}.</source>
      <translation>这个处理器对 Tessera 来说太旧：缺少 {features}。</translation>
    </message>
    <message>
      <source>This processor lacks AVX2, so answers will be slow.</source>
      <translation>这个处理器缺少 AVX2，回答会很慢。</translation>
    </message>
    <message>
      <source>Thought briefly</source>
      <translation>短暂思考</translation>
    </message>
    <message>
      <source>Thought for {seconds}</source>
      <translation>思考了 {seconds}</translation>
    </message>
    <message>
      <source>Thoughts</source>
      <translation>思考过程</translation>
    </message>
    <message>
      <source>Threads</source>
      <translation>线程数</translation>
    </message>
    <message>
      <source>Threads: {count}</source>
      <translation>线程：{count}</translation>
    </message>
    <message>
      <source>Time per token, 99th percentile</source>
      <translation>每词元用时，第 99 百分位</translation>
    </message>
    <message>
      <source>Time per token, median</source>
      <translation>每词元用时，中位数</translation>
    </message>
    <message>
      <source>Time to first token</source>
      <translation>首个词元用时</translation>
    </message>
    <message>
      <source>Time to first token, median</source>
      <translation>首个词元用时（中位数）</translation>
    </message>
    <message>
      <source>Timeline of one step: {busy}</source>
      <translation>一步的忙碌程度：{busy}</translation>
    </message>
    <message>
      <source>Title</source>
      <translation>标题</translation>
    </message>
    <message>
      <source>Titles by the model</source>
      <translation>由模型拟定标题</translation>
    </message>
    <message>
      <source>To the latest message</source>
      <translation>到最新消息</translation>
    </message>
    <message>
      <source>Today</source>
      <translation>今天</translation>
    </message>
    <message>
      <source>Token</source>
      <translation>词元</translation>
    </message>
    <message>
      <source>Tokens</source>
      <translation>词元</translation>
    </message>
    <message>
      <source>Tokens a conversation may span. Automatic: what the model was trained with, capped by memory.</source>
      <translation>对话可占用的词元数。自动：模型训练时的长度，受内存限制。</translation>
    </message>
    <message>
      <source>Tokens less likely than this share of the most likely one are left out.</source>
      <translation>概率低于最可能词元此比例的词元会被排除。</translation>
    </message>
    <message>
      <source>Tokens this conversation may span. Another length than the loaded one means loading the model again.</source>
      <translation>此对话可用的词元数。与已加载的长度不同时，需要重新加载模型。</translation>
    </message>
    <message>
      <source>Told to the model before everything else: who it is, how it should answer.</source>
      <translation>最先告诉模型的内容：它是谁，应如何回答。</translation>
    </message>
    <message>
      <source>Tool call that cannot be read (not executed)</source>
      <translation>无法读取的工具调用（未执行）</translation>
    </message>
    <message>
      <source>Tool call: {name} (not executed)</source>
      <translation>工具调用：{name}（未执行）</translation>
    </message>
    <message>
      <source>Top-k</source>
      <translation>Top-k</translation>
    </message>
    <message>
      <source>Top-p</source>
      <translation>Top-p</translation>
    </message>
    <message>
      <source>Trash</source>
      <translation>回收站</translation>
    </message>
    <message>
      <source>Trash…</source>
      <translation>回收站…</translation>
    </message>
    <message>
      <source>Try again</source>
      <translation>重试</translation>
    </message>
    <message>
      <source>Try {size} lower</source>
      <translation>降低 {size} 再试</translation>
    </message>
    <message>
      <source>Type</source>
      <translation>类型</translation>
    </message>
    <message>
      <source>Type a command, a conversation or a model</source>
      <translation>输入命令、对话或模型</translation>
    </message>
    <message>
      <source>Undo</source>
      <translation>撤销</translation>
    </message>
    <message>
      <source>Unfold</source>
      <translation>展开</translation>
    </message>
    <message>
      <source>Unfolded</source>
      <translation>已展开</translation>
    </message>
    <message>
      <source>Unload the model</source>
      <translation>卸载模型</translation>
    </message>
    <message>
      <source>Unpin</source>
      <translation>取消置顶</translation>
    </message>
    <message>
      <source>Unsupported</source>
      <translation>不支持</translation>
    </message>
    <message>
      <source>Update Tessera, or start it with another data folder (--data-dir).</source>
      <translation>请更新 Tessera，或用另一个数据文件夹启动（--data-dir）。</translation>
    </message>
    <message>
      <source>Updates</source>
      <translation>更新</translation>
    </message>
    <message>
      <source>Use</source>
      <translation>使用</translation>
    </message>
    <message>
      <source>VRAM {size}</source>
      <translation>显存 {size}</translation>
    </message>
    <message>
      <source>Value</source>
      <translation>值</translation>
    </message>
    <message>
      <source>Verified as far as possible</source>
      <translation>已尽可能验证</translation>
    </message>
    <message>
      <source>Verify again</source>
      <translation>重新验证</translation>
    </message>
    <message>
      <source>Version {number} of {count}</source>
      <translation>第 {number} 版，共 {count} 版</translation>
    </message>
    <message>
      <source>Violet: would move with the budget above.</source>
      <translation>紫色：会随上面的预算移动。</translation>
    </message>
    <message>
      <source>Wait a moment, or end the process “tessera”, then start it again.</source>
      <translation>请稍候，或结束进程“tessera”，然后重新启动。</translation>
    </message>
    <message>
      <source>Waiting for the model…</source>
      <translation>正在等待模型…</translation>
    </message>
    <message>
      <source>Welcome to Tessera</source>
      <translation>欢迎使用 Tessera</translation>
    </message>
    <message>
      <source>What Tessera found here. Amber works, with something missing; red needs the remedy beside it.</source>
      <translation>Tessera 在这里的发现。黄色表示可用但有缺失，红色需要旁边的补救措施。</translation>
    </message>
    <message>
      <source>What computes beside the processor. Automatic: an NVIDIA GPU, where one can be used. The emulated one tries placements out; it makes nothing faster.</source>
      <translation>与处理器一同计算的设备。自动：可用的 NVIDIA 显卡。模拟设备仅用于试验放置，不会更快。</translation>
    </message>
    <message>
      <source>What gains nothing from it then moved to RAM.</source>
      <translation>因此不再能从 GPU 获益的部分已移至内存。</translation>
    </message>
    <message>
      <source>What happened, newest at the end. Nothing you write and no answer is in here, and nothing is sent.</source>
      <translation>发生过的事情，最新的在末尾。这里没有您写的内容，也没有回答，并且不会发送任何东西。</translation>
    </message>
    <message>
      <source>What happened, to read or to copy without paths.</source>
      <translation>发生过的事情，可供阅读或复制（不含路径）。</translation>
    </message>
    <message>
      <source>What is here, what is missing, and how to get it.</source>
      <translation>有什么、缺什么以及如何获得。</translation>
    </message>
    <message>
      <source>What is on your mind?</source>
      <translation>想聊点什么？</translation>
    </message>
    <message>
      <source>What suits it is known in a moment.</source>
      <translation>稍后即可知道适合它的模型。</translation>
    </message>
    <message>
      <source>What was changed holds until Tessera is closed.</source>
      <translation>更改在关闭 Tessera 之前有效。</translation>
    </message>
    <message>
      <source>Whatever is left out is said under the answer.</source>
      <translation>略去的内容会在回答下方说明。</translation>
    </message>
    <message>
      <source>When the context is full</source>
      <translation>上下文已满时</translation>
    </message>
    <message>
      <source>Where everything is</source>
      <translation>一切所在之处</translation>
    </message>
    <message>
      <source>Where models are looked for and downloaded to. Empty: inside the application's data folder.</source>
      <translation>查找和下载模型的位置。留空：应用的数据文件夹内。</translation>
    </message>
    <message>
      <source>Where models are searched and fetched, for instance a mirror. Empty: HF_ENDPOINT, or huggingface.co.</source>
      <translation>搜索和获取模型的地址，例如镜像站。留空：HF_ENDPOINT 或 huggingface.co。</translation>
    </message>
    <message>
      <source>Where should the models be kept?</source>
      <translation>模型应保存在哪里？</translation>
    </message>
    <message>
      <source>Where the plan puts it</source>
      <translation>由方案决定</translation>
    </message>
    <message>
      <source>Whether the model thinks before it answers. Only some models let it be chosen.</source>
      <translation>模型在回答前是否思考。只有部分模型允许选择。</translation>
    </message>
    <message>
      <source>Which log</source>
      <translation>哪个日志</translation>
    </message>
    <message>
      <source>Which version this is, and whether there is a newer one.</source>
      <translation>当前是哪个版本，以及是否有更新的版本。</translation>
    </message>
    <message>
      <source>Why</source>
      <translation>原因</translation>
    </message>
    <message>
      <source>Works, with something missing</source>
      <translation>可用，但有缺失</translation>
    </message>
    <message>
      <source>Write a message</source>
      <translation>输入消息</translation>
    </message>
    <message>
      <source>Writing a tool call…</source>
      <translation>正在编写工具调用…</translation>
    </message>
    <message>
      <source>Written</source>
      <translation>已生成</translation>
    </message>
    <message>
      <source>Yesterday</source>
      <translation>昨天</translation>
    </message>
    <message>
      <source>You can go on working. Please report it together with the log.</source>
      <translation>你可以继续工作。请连同日志一起报告。</translation>
    </message>
    <message>
      <source>Your conversations and what you were writing are here. Nothing was sent to anybody.</source>
      <translation>您的对话和正在写的内容都在。没有向任何人发送任何东西。</translation>
    </message>
    <message>
      <source>Your message</source>
      <translation>您的消息</translation>
    </message>
    <message>
      <source>Your message is still in the box.</source>
      <translation>你的消息仍在输入框中。</translation>
    </message>
    <message>
      <source>a model without experts</source>
      <translation>没有专家的模型</translation>
    </message>
    <message>
      <source>a new one each time</source>
      <translation>每次不同</translation>
    </message>
    <message>
      <source>app and scratch</source>
      <translation>程序与暂存</translation>
    </message>
    <message>
      <source>as in the settings</source>
      <translation>按设置</translation>
    </message>
    <message>
      <source>blk.{layer} expert {number}</source>
      <translation>blk.{layer} 专家 {number}</translation>
    </message>
    <message>
      <source>brighter: used lately</source>
      <translation>越亮：最近使用</translation>
    </message>
    <message>
      <source>compared and equal</source>
      <translation>已比对，一致</translation>
    </message>
    <message>
      <source>compatibility engine</source>
      <translation>兼容引擎</translation>
    </message>
    <message>
      <source>compatibility engine (llama.cpp)</source>
      <translation>兼容引擎（llama.cpp）</translation>
    </message>
    <message>
      <source>complete</source>
      <translation>完成</translation>
    </message>
    <message>
      <source>conversation</source>
      <translation>对话</translation>
    </message>
    <message>
      <source>costs {size}</source>
      <translation>占用 {size}</translation>
    </message>
    <message>
      <source>counted when a model is loaded</source>
      <translation>加载模型后计数</translation>
    </message>
    <message>
      <source>decode {speed} tok/s</source>
      <translation>解码 {speed} 词元/秒</translation>
    </message>
    <message>
      <source>deeper: used lately</source>
      <translation>越深：最近使用</translation>
    </message>
    <message>
      <source>disk</source>
      <translation>磁盘</translation>
    </message>
    <message>
      <source>emulated</source>
      <translation>模拟设备</translation>
    </message>
    <message>
      <source>en</source>
      <translation>zh_CN</translation>
    </message>
    <message>
      <source>ended at the token limit</source>
      <translation>达到词元上限</translation>
    </message>
    <message>
      <source>ended by an error</source>
      <translation>因错误结束</translation>
    </message>
    <message>
      <source>ended: the context is full</source>
      <translation>结束：上下文已满</translation>
    </message>
    <message>
      <source>every token</source>
      <translation>每个词元</translation>
    </message>
    <message>
      <source>experts</source>
      <translation>专家</translation>
    </message>
    <message>
      <source>first token {seconds}</source>
      <translation>首词元 {seconds}</translation>
    </message>
    <message>
      <source>free in budget</source>
      <translation>预算内空闲</translation>
    </message>
    <message>
      <source>gated</source>
      <translation>受限</translation>
    </message>
    <message>
      <source>greedy</source>
      <translation>贪心</translation>
    </message>
    <message>
      <source>hf_… (leave empty to remove the one that is kept)</source>
      <translation>hf_…（留空可移除已保存的令牌）</translation>
    </message>
    <message>
      <source>hits {share}</source>
      <translation>命中 {share}</translation>
    </message>
    <message>
      <source>in</source>
      <translation>输入</translation>
    </message>
    <message>
      <source>interrupted</source>
      <translation>被中断</translation>
    </message>
    <message>
      <source>kept in RAM by you</source>
      <translation>由您保留在内存中</translation>
    </message>
    <message>
      <source>kept on the GPU by you</source>
      <translation>由您保留在 GPU 上</translation>
    </message>
    <message>
      <source>largest safe {size}</source>
      <translation>最大安全值 {size}</translation>
    </message>
    <message>
      <source>link</source>
      <translation>链路</translation>
    </message>
    <message>
      <source>measured</source>
      <translation>实测</translation>
    </message>
    <message>
      <source>minimum {size}</source>
      <translation>最小 {size}</translation>
    </message>
    <message>
      <source>model</source>
      <translation>模型</translation>
    </message>
    <message>
      <source>moving</source>
      <translation>移动中</translation>
    </message>
    <message>
      <source>n/a</source>
      <translation>无数据</translation>
    </message>
    <message>
      <source>native engine</source>
      <translation>原生引擎</translation>
    </message>
    <message>
      <source>never</source>
      <translation>从未</translation>
    </message>
    <message>
      <source>no licence given</source>
      <translation>未注明许可证</translation>
    </message>
    <message>
      <source>no limit</source>
      <translation>不限</translation>
    </message>
    <message>
      <source>no model</source>
      <translation>无模型</translation>
    </message>
    <message>
      <source>not compared yet</source>
      <translation>尚未比对</translation>
    </message>
    <message>
      <source>not named</source>
      <translation>未命名</translation>
    </message>
    <message>
      <source>now</source>
      <translation>当前</translation>
    </message>
    <message>
      <source>now {size}</source>
      <translation>当前 {size}</translation>
    </message>
    <message>
      <source>of expert uses found on the GPU</source>
      <translation>的专家调用在 GPU 上命中</translation>
    </message>
    <message>
      <source>of {size}</source>
      <translation>共 {size}</translation>
    </message>
    <message>
      <source>off</source>
      <translation>关闭</translation>
    </message>
    <message>
      <source>other programs</source>
      <translation>其他程序</translation>
    </message>
    <message>
      <source>out</source>
      <translation>输出</translation>
    </message>
    <message>
      <source>page cache of the model</source>
      <translation>模型的页面缓存</translation>
    </message>
    <message>
      <source>planned</source>
      <translation>计划</translation>
    </message>
    <message>
      <source>planned {size}</source>
      <translation>计划 {size}</translation>
    </message>
    <message>
      <source>predicted</source>
      <translation>预测</translation>
    </message>
    <message>
      <source>predicted at {depth} tokens</source>
      <translation>在 {depth} 个词元处预测</translation>
    </message>
    <message>
      <source>predicted; measured {speed}</source>
      <translation>预测；实测 {speed}</translation>
    </message>
    <message>
      <source>predicted; measured {speed} at {depth} tokens</source>
      <translation>预测；在 {depth} 个词元时实测 {speed}</translation>
    </message>
    <message>
      <source>prefill {speed} tok/s</source>
      <translation>预填充 {speed} 词元/秒</translation>
    </message>
    <message>
      <source>private</source>
      <translation>私有</translation>
    </message>
    <message>
      <source>processor measured here, card from its datasheet</source>
      <translation>处理器速率在本机测得，显卡速率取自规格</translation>
    </message>
    <message>
      <source>rates from datasheets</source>
      <translation>速率来自规格书</translation>
    </message>
    <message>
      <source>rates measured here</source>
      <translation>速率在本机测得</translation>
    </message>
    <message>
      <source>rates measured here while other programs were busy</source>
      <translation>速率在本机测得，但当时其他程序繁忙</translation>
    </message>
    <message>
      <source>recent uses {count}</source>
      <translation>最近使用 {count} 次</translation>
    </message>
    <message>
      <source>recommended {size}</source>
      <translation>推荐 {size}</translation>
    </message>
    <message>
      <source>scratch</source>
      <translation>暂存区</translation>
    </message>
    <message>
      <source>simulated</source>
      <translation>模拟</translation>
    </message>
    <message>
      <source>simulated: {words}</source>
      <translation>模拟：{words}</translation>
    </message>
    <message>
      <source>stopped by you</source>
      <translation>由你停止</translation>
    </message>
    <message>
      <source>tensors</source>
      <translation>张量</translation>
    </message>
    <message>
      <source>the GPU</source>
      <translation>GPU</translation>
    </message>
    <message>
      <source>the plan takes {size}</source>
      <translation>方案占用 {size}</translation>
    </message>
    <message>
      <source>the processor</source>
      <translation>处理器</translation>
    </message>
    <message>
      <source>today</source>
      <translation>今天</translation>
    </message>
    <message>
      <source>tok/s</source>
      <translation>词元/秒</translation>
    </message>
    <message>
      <source>used by every token</source>
      <translation>每个词元都会用到</translation>
    </message>
    <message>
      <source>weights</source>
      <translation>权重</translation>
    </message>
    <message>
      <source>yesterday</source>
      <translation>昨天</translation>
    </message>
    <message>
      <source>{billions} billion parameters</source>
      <translation>{billions}B 个参数</translation>
    </message>
    <message>
      <source>{count} bytes</source>
      <translation>{count} 字节</translation>
    </message>
    <message>
      <source>{count} characters</source>
      <translation>{count} 个字符</translation>
    </message>
    <message>
      <source>{count} downloads</source>
      <translation>{count} 次下载</translation>
    </message>
    <message>
      <source>{count} downloads, {percent} %, {speed}/s</source>
      <translation>{count} 个下载，{percent} %，{speed}/s</translation>
    </message>
    <message>
      <source>{count} experts per layer</source>
      <translation>每层 {count} 个专家</translation>
    </message>
    <message>
      <source>{count} h</source>
      <translation>{count} 小时</translation>
    </message>
    <message>
      <source>{count} likes</source>
      <translation>{count} 个赞</translation>
    </message>
    <message>
      <source>{count} min</source>
      <translation>{count} 分钟</translation>
    </message>
    <message>
      <source>{count} of the oldest messages were left out to fit the context.</source>
      <translation>为适应上下文，略去了最早的 {count} 条消息。</translation>
    </message>
    <message>
      <source>{count} pages</source>
      <translation>{count} 页</translation>
    </message>
    <message>
      <source>{count} parameters</source>
      <translation>{count} 个参数</translation>
    </message>
    <message>
      <source>{count} repositories</source>
      <translation>{count} 个仓库</translation>
    </message>
    <message>
      <source>{count} s</source>
      <translation>{count} 秒</translation>
    </message>
    <message>
      <source>{count} tokens</source>
      <translation>{count} 个词元</translation>
    </message>
    <message>
      <source>{count} tokens of context</source>
      <translation>{count} 个词元的上下文</translation>
    </message>
    <message>
      <source>{days} days ago</source>
      <translation>{days} 天前</translation>
    </message>
    <message>
      <source>{done} of {size}</source>
      <translation>{done} / {size}</translation>
    </message>
    <message>
      <source>{endpoint} answers.</source>
      <translation>{endpoint} 有响应。</translation>
    </message>
    <message>
      <source>{file} ({memory} of memory)</source>
      <translation>{file}（内存 {memory}）</translation>
    </message>
    <message>
      <source>{gpu} with {cpu}</source>
      <translation>{gpu} 与 {cpu}</translation>
    </message>
    <message>
      <source>{measured} ({predicted})</source>
      <translation>{measured}（{predicted}）</translation>
    </message>
    <message>
      <source>{memory} GiB of memory: model files up to about {largest} GB can run.</source>
      <translation>{memory} GiB 内存：可运行约 {largest} GB 以内的模型文件。</translation>
    </message>
    <message>
      <source>{middle}, at most {longest}</source>
      <translation>{middle}，最长 {longest}</translation>
    </message>
    <message>
      <source>{name} goes to the trash.</source>
      <translation>{name} 将移入回收站。</translation>
    </message>
    <message>
      <source>{name} with {size} GiB could help, but GPU support is not installed yet (Settings, Help).</source>
      <translation>{name}，{size} GiB 可以提供帮助，但尚未安装 GPU 支持（设置，帮助）。</translation>
    </message>
    <message>
      <source>{name} with {size} GiB: models run on it, and larger ones on it and the processor together.</source>
      <translation>{name}，{size} GiB：模型在显卡上运行，更大的模型由显卡和处理器共同运行。</translation>
    </message>
    <message>
      <source>{name}, {cores} cores. It has what fast answers need.</source>
      <translation>{name}，{cores} 核。具备快速回答所需的指令。</translation>
    </message>
    <message>
      <source>{name}, {cores} cores. It lacks AVX2, so answers will be slow.</source>
      <translation>{name}，{cores} 核。缺少 AVX2，回答会很慢。</translation>
    </message>
    <message>
      <source>{new} of {all} prompt tokens were new</source>
      <translation>{all} 个提示词元中有 {new} 个是新的</translation>
    </message>
    <message>
      <source>{new} of {all} tokens were new</source>
      <translation>{all} 个词元中有 {new} 个是新的</translation>
    </message>
    <message>
      <source>{path} could not be written: {error}</source>
      <translation>无法写入 {path}：{error}</translation>
    </message>
    <message>
      <source>{path} holds no settings: {error}</source>
      <translation>{path} 中没有设置：{error}</translation>
    </message>
    <message>
      <source>{percent} % of {name}</source>
      <translation>{name} 的 {percent} %</translation>
    </message>
    <message>
      <source>{share} % of its bytes</source>
      <translation>占其字节的 {share} %</translation>
    </message>
    <message>
      <source>{size} in {count} files</source>
      <translation>{count} 个文件共 {size}</translation>
    </message>
    <message>
      <source>{size} of {name} were fetched and will be removed.</source>
      <translation>{name} 已获取的 {size} 将被移除。</translation>
    </message>
    <message>
      <source>{size} per 1,000 tokens</source>
      <translation>每 1,000 词元 {size}</translation>
    </message>
    <message>
      <source>{size}, {speed} predicted</source>
      <translation>{size}，预测 {speed}</translation>
    </message>
    <message>
      <source>{speed} predicted</source>
      <translation>预测 {speed}</translation>
    </message>
    <message>
      <source>{speed} predicted for the emulated card</source>
      <translation>为模拟显卡预测 {speed}</translation>
    </message>
    <message>
      <source>{speed} predicted from datasheets</source>
      <translation>根据规格预测 {speed}</translation>
    </message>
    <message>
      <source>{speed} simulated</source>
      <translation>模拟 {speed}</translation>
    </message>
    <message>
      <source>{speed} tok/s</source>
      <translation>{speed} 词元/秒</translation>
    </message>
    <message>
      <source>{speed} tok/s, {predicted} predicted</source>
      <translation>{speed} 词元/秒，预测 {predicted}</translation>
    </message>
    <message>
      <source>{time} left</source>
      <translation>剩余 {time}</translation>
    </message>
    <message>
      <source>{title}  ·  outside the models folder</source>
      <translation>{title}  ·  不在模型文件夹中</translation>
    </message>
    <message>
      <source>{title} (copy)</source>
      <translation>{title}（副本）</translation>
    </message>
    <message>
      <source>~{speed} tok/s predicted</source>
      <translation>预计约 {speed} 词元/秒</translation>
    </message>
    <message>
      <source>“{name}” is unknown.</source>
      <translation>“{name}”未知。</translation>
    </message>
    <message>
      <source>简体中文</source>
      <translation>简体中文</translation>
    </message>
  </context>
</TS>
