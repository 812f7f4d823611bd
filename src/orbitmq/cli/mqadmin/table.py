"""The table of subcommands: names, options, what each does, and the function that does it. Pure.

Help, completion and the reference page come from it; a family's module is loaded when one of its subcommands runs.

Source: Java MQAdminStartup.initCommand and the `*SubCommand` classes of 5.3.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TABLE = """\
[topics] Topics
updateTopic: Create a topic, or change the one that is there.
    b:brokerAddr=? c:clusterName=? a:attributes= t:topic=! r:readQueueNums= w:writeQueueNums= p:perm= o:order= u:unit=
    s:hasUnitSub=
deleteTopic: Delete a topic from brokers and NameServers.
    t:topic=! c:clusterName=!
updateTopicPerm: Change a topic's permission.
    b:brokerAddr=? c:clusterName=? t:topic=! p:perm=!
topicRoute: Show a topic's route.
    t:topic=! l:list
topicStatus: Show where each queue of a topic begins and ends.
    t:topic=! c:cluster=
topicClusterList: Show the clusters that have a topic.
    t:topic=!
topicList: List all topics.
    c:clusterModel
allocateMQ: Show how a topic's queues are shared among clients.
    t:topic=! i:ipList=!

[nameservers] NameServers
updateOrderConf: Show, set or delete the order configuration of a topic.
    t:topic=! v:orderConf= m:method=!
updateKvConfig: Set a key of a namespace.
    s:namespace=! k:key=! v:value=!
deleteKvConfig: Delete a key of a namespace.
    s:namespace=! k:key=!
wipeWritePerm: Take a broker's write permission.
    b:brokerName=!
addWritePerm: Give a broker its write permission back.
    b:brokerName=!
getNamesrvConfig: Show the settings of every NameServer.
    s:showSecrets
updateNamesrvConfig: Change a setting of every NameServer.
    k:key=! v:value=!

[brokers] Brokers
brokerStatus: Show the run-time values of brokers.
    b:brokerAddr=? c:clusterName=?
getBrokerConfig: Show the settings of brokers.
    b:brokerAddr=? c:clusterName=? s:showSecrets
updateBrokerConfig: Change a setting of brokers.
    b:brokerAddr=? c:clusterName=? a:updateAllBroker= k:key=! v:value=!
producer: Show the producers that are connected to a broker.
    b:broker=!
cleanUnusedTopic: Delete the consume queues of topics that are gone.
    b:brokerAddr= c:cluster=
cleanExpiredCQ: Delete consume queues of messages that are gone.
    b:brokerAddr= c:cluster=
deleteExpiredCommitLog: Delete expired files of the CommitLog now.
    b:brokerAddr= c:cluster=

[clusters] Clusters
clusterList: List brokers with their load.
    m:moreStats i:interval= c:clusterName=

[consumers] Consumers and producers
consumerProgress: Show how far groups are; with -g one of them, queue by queue.
    g:groupName= t:topicName= s:showClientIP= c:cluster=
consumerStatus: Show what a client of a group says of itself; without -i write a file for each of them.
    g:consumerGroup=! i:clientId= b:brokerAddr= s:jstack
consumerConnection: Show the clients of a group and their subscriptions.
    g:consumerGroup=! b:brokerAddr=
producerConnection: Show the producers of a group that are connected to a topic's broker.
    g:producerGroup=! t:topic=!
getConsumerConfig: Show a group's settings on every broker.
    g:groupName=!
updateSubGroup: Create a group, or set all of its settings.
    b:brokerAddr=? c:clusterName=? g:groupName=! s:consumeEnable= m:consumeFromMinEnable= d:consumeBroadcastEnable=
    o:consumeMessageOrderly= q:retryQueueNums= r:retryMaxTimes= p:groupRetryPolicy= i:brokerId=
    w:whichBrokerWhenConsumeSlowly= a:notifyConsumerIdsChanged= :attributes=
deleteSubGroup: Delete a group; from a cluster with the topics of its retries and dead letters.
    b:brokerAddr=? c:clusterName=? g:groupName=! r:removeOffset=
setConsumeMode: Let a group pull a topic's messages, or pop them.
    b:brokerAddr=? c:clusterName=? t:topicName=! g:groupName=! m:mode=! q:popShareQueueNum=
brokerConsumeStats: Show how far every group of a broker is.
    b:brokerAddr=! t:timeoutMillis= l:level= o:order=

[offsets] Offsets
resetOffsetByTime: Let a group go on in a topic at a time; with -b and -q in one queue, with -o at an offset of it.
    g:group=! t:topic=! s:timestamp=! f:force= b:broker= q:queue= o:offset= c:cluster=
skipAccumulatedMessage: Let a group go on in a topic behind all messages that are there.
    g:group=! t:topic=! f:force= c:cluster=
cloneGroupOffset: Let a group go on in a topic where another one is.
    s:srcGroup=! d:destGroup=! t:topic=! o:offline=

[messages] Messages
queryMsgById: Show messages by their ids; with -g and -d let a client consume them, with -s true send them again.
    t:topic=! i:msgId=! g:consumerGroup= d:clientId= s:sendMessage= u:unitName= f:bodyFormat= c:cluster=
queryMsgByKey: List the messages of a key.
    t:topic=! k:msgKey=! b:beginTimestamp= e:endTimestamp= m:maxNum= c:cluster=
queryMsgByUniqueKey: Show the message of a client's id; with -a all of them, with -g and -d let a client consume it.
    i:msgId=! g:consumerGroup= d:clientId= t:topic=! a:showAll c:cluster=
queryMsgByOffset: Show the message at an offset of a queue.
    t:topic=! b:brokerName=! i:queueId=! o:offset=! f:bodyFormat=!
queryMsgTraceById QueryMsgTraceById: Show what producers and consumers have traced of a message.
    i:msgId=! t:traceTopic= b:beginTimestamp= e:endTimestamp= c:maxNum=
printMsg: Print the messages of every queue of a topic.
    t:topic=! c:charsetName= s:subExpression= b:beginTimestamp= e:endTimestamp= d:printBody= l:lmqParentTopic=
printMsgByQueue: Print the messages of one queue with -p true, or count them by tag with -f true.
    t:topic=! a:brokerName=! i:queueId=! c:charsetName= s:subExpression= b:beginTimestamp= e:endTimestamp= p:print_msg=
    d:printBody= f:calculate=
consumeMessage: Read messages of a topic, of one queue with -b and -i, and commit nothing.
    t:topic=! b:brokerName= i:queueId= o:offset= g:consumerGroup= s:beginTimestamp= e:endTimestamp= c:MessageNumber=
queryCq: Show entries of a consume queue.
    t:topic=! q:queue=! i:index=! c:count= b:broker= g:consumer=

[sending] Sending
sendMessage: Send one message: to any queue, to a broker's with -b, to one of them with -i.
    t:topic=! p:body=! k:key= c:tags= b:broker= i:qid= m:msgTraceEnable=
sendMsgStatus: Send messages to the topic of a broker's name, and show how long each took.
    b:brokerName=! s:messageSize= c:count=
checkMsgSendRT: Send messages to a topic's queues, and show how long each took.
    t:topic=! a:amount= s:size=
clusterRT: Send messages to every broker, and show how long they took; with -i again and again.
    a:amount= s:size= c:cluster= p:print_log= m:machine_room= i:interval=

[auth] Users and rules
createUser: Make a user.
    c:clusterName=? b:brokerAddr=? u:username=! p:password=! t:userType=
updateUser: Change a user's password, type or status.
    c:clusterName=? b:brokerAddr=? u:username=! p:password= t:userType= s:userStatus=
deleteUser: Delete a user and its rules.
    c:clusterName=? b:brokerAddr=? u:username=!
getUser: Show a user.
    b:brokerAddr=? c:clusterName=? u:username= s:showSecrets
listUser: List users, with -f those whose names contain a text.
    b:brokerAddr=? c:clusterName=? f:filter= s:showSecrets
copyUser: Copy users from one broker to another.
    f:fromBroker=! t:toBroker=! u:usernames=
createAcl: Add rules to a subject's.
    c:clusterName=? b:brokerAddr=? s:subject=! r:resources=! a:actions=! i:sourceIp= d:decision=!
updateAcl: Change a subject's rules about some resources.
    c:clusterName=? b:brokerAddr=? s:subject=! r:resources=! a:actions=! d:decision=! i:sourceIp=
deleteAcl: Delete a subject's rules, or the one about a resource.
    c:clusterName=? b:brokerAddr=? s:subject=! r:resources=
getAcl: Show a subject's rules.
    b:brokerAddr=? c:clusterName=? s:subject=
listAcl: List rules, with -s and -r those of subjects and about resources that contain a text.
    b:brokerAddr=? c:clusterName=? s:subject= r:resource=
copyAcl: Copy rules from one broker to another.
    f:fromBroker=! t:toBroker=! s:subjects=

[replication] Replication and controllers
haStatus: Show which slaves follow a master, and how far.
    c:clusterName=? b:brokerAddr=? i:interval=
getSyncStateSet: Show the members of a broker name in and out of their sync set.
    a:controllerAddress=! c:clusterName=? b:brokerName=? i:interval=
getBrokerEpoch: Show in which epochs the logs of members were written.
    c:clusterName=? b:brokerName=? i:interval=
resetMasterFlushOffset: Tell a slave up to where its master's log is on the disk.
    b:brokerAddr= o:offset=
getControllerMetaData: Show the controllers, and which one leads.
    a:controllerAddress=!
getControllerConfig: Show the settings of controllers.
    a:controllerAddress=!
updateControllerConfig: Change a setting of controllers.
    a:controllerAddress=! k:key=! v:value=!
electMaster: Let a member of a sync set become the master.
    a:controllerAddress=! b:brokerId=! bn:brokerName=! c:clusterName=!
cleanBrokerMetadata: Let controllers forget members of a broker name, or all of it.
    a:controllerAddress=! b:brokerControllerIdsToClean= bn:brokerName=! c:clusterName= l:cleanLivingBroker

[exports] Statistics, lists, exports, cold data
statsAll: Show of every topic and group the messages per second and per day.
    a:activeTopic t:topic=
updateTopicList: Create or change the topics that a JSON file lists.
    b:brokerAddr=? c:clusterName=? f:filename=!
updateSubGroupList: Create or change the groups that a JSON file lists.
    b:brokerAddr=? c:clusterName=? f:filename=!
exportMetadata: Write the settings of topics and groups to a JSON file.
    c:clusterName=? b:brokerAddr=? f:filePath= t:topic g:subscriptionGroup s:specialTopic
exportConfigs: Write the most important settings of a cluster's masters to a JSON file.
    c:clusterName=! f:filePath=
exportMetrics: Write rates, counts and sizes of a cluster's masters to a JSON file.
    c:clusterName=! f:filePath=
getColdDataFlowCtrInfo: Show the limits on reading what is no longer in memory.
    b:brokerAddr=? c:clusterName=?
updateColdDataFlowCtrGroupConfig: Limit how much a group reads of what is no longer in memory.
    b:brokerAddr=? c:clusterName=? g:consumerGroup=! v:threshold=!
removeColdDataFlowCtrGroupConfig: Take such a limit away.
    b:brokerAddr=? c:clusterName=? g:consumerGroup=!
setCommitLogReadAheadMode: Let the system read ahead in the CommitLog, or not.
    b:brokerAddr=? c:clusterName=? m:commitLogReadAheadMode=!

[] What is not there
startMonitoring: Watch groups.
    because `orbitmq doctor` and the metrics tell what is wrong
addBroker: Start a broker in a container.
    c:brokerContainerAddr=! b:brokerConfigPath=!
    because our brokers run in processes of their own, not in containers
removeBroker: Stop a broker in a container.
    c:brokerContainerAddr=! b:brokerIdentity=!
    because our brokers run in processes of their own, not in containers
updateStaticTopic: Create a static topic, or change it.
    c:clusters= b:brokers= t:topic=! qn:totalQueueNum=! mf:mapFile= fr:forceReplace=
    because a static topic is made with Java's mqadmin, and our brokers serve it
remappingStaticTopic: Move queues of a static topic.
    c:clusters= b:brokers= t:topic=! mf:mapFile= fr:forceReplace=
    because a static topic is moved with Java's mqadmin, and our brokers serve it
exportMetadataInRocksDB: Print tables that are kept in RocksDB.
    p:path=! t:configType=! j:jsonEnable=
    because our brokers keep no tables and no queues in RocksDB
rocksDBConfigToJson: Write tables that are kept in RocksDB as JSON.
    t:configType= p:configPath= e:exportFile= j:jsonEnable= n:nameserverAddr= c:cluster= b:brokerAddr=
    because our brokers keep no tables and no queues in RocksDB
checkRocksdbCqWriteProgress: Compare consume queues in RocksDB with those in files.
    c:cluster=! n:nameserverAddr=! t:topic= cf:checkFrom=
    because our brokers keep no tables and no queues in RocksDB
exportPopRecord: Write records of popped messages from RocksDB to a topic.
    c:clusterName= b:brokerAddr= d:dryRun=
    because our brokers keep no records of popped messages in RocksDB
dumpCompactionLog: Print a log of a compacted topic.
    f:file=
    because our brokers compact no topics
"""
"""Families, each with its module and title; in them subcommands (and another name of one), and indented their options.

An option is its short and its long name, `=` where it has a value, and `!` where it is required; of those with a `?` one is
required. The short name may have two letters, or none; `_` is a blank. Those without a module say why they are not there.
"""
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""`checkMsgSendRT` is the function check_msg_send_rt."""
_BECAUSE = "because "


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a subcommand.

    Args:
        short: after one dash; may be two letters (`-qn`), or empty.
        long: after two dashes.
        has_value: a word follows.
        is_required: it has to be given.
        is_choice: it, or another one with this mark, has to be given.
    """

    short: str
    long: str
    has_value: bool = False
    is_required: bool = False
    is_choice: bool = False

    @property
    def usage(self) -> str:
        """Return it as help shows it."""
        name = f"-{self.short}" if self.short else f"--{self.long}"
        text = f"{name} <{self.long}>" if self.has_value else name
        return text if self.is_required else f"[{text}]"


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand.

    Args:
        family: the module of its function; empty: it is not there, and `reason` says why.
        alias: another name of it, or empty.
    """

    name: str
    family: str
    summary: str
    options: tuple[Option, ...] = ()
    alias: str = ""
    reason: str = ""

    @property
    def one_of(self) -> tuple[str, ...]:
        """Return the long names of options of which one has to be given."""
        return tuple(sorted(option.long for option in self.options if option.is_choice))

    @property
    def function(self) -> str:
        """The name of its function in the family's module."""
        return _WORD.sub("_", self.name).lower()


def _option(word: str) -> Option:
    short, _, rest = word.partition(":")
    return Option(short, rest.rstrip("=!?").replace("_", " "), "=" in rest, "!" in rest, "?" in rest)


def _subcommand(family: str, entry: str) -> Subcommand:
    first, *indented = entry.splitlines()
    names, _, summary = first.partition(": ")
    name, _, alias = names.partition(" ")
    options, _, reason = " ".join(line.strip() for line in indented).partition(_BECAUSE)
    return Subcommand(name, family, summary, tuple(map(_option, options.split())), alias, reason)


def _read(table: str) -> tuple[dict[str, str], dict[str, Subcommand]]:
    titles: dict[str, str] = {}
    found: dict[str, Subcommand] = {}
    for part in table.strip().split("\n\n"):
        head, *entries = re.split(r"\n(?! )", part)
        family, _, title = head.removeprefix("[").partition("] ")
        titles[family] = title
        found |= {one.name: one for one in (_subcommand(family, entry) for entry in entries)}
    return titles, found


FAMILIES, SUBCOMMANDS = _read(_TABLE)
"""The families' titles by their modules, those that are not there by an empty name; and the subcommands by their names."""
