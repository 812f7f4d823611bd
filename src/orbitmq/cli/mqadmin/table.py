"""The table of subcommands: names, options, what each does, and the function that does it. Pure.

Help, completion and the reference page come from it; a family's module is loaded when one of its subcommands runs.

Source: Java MQAdminStartup.initCommand and the `*SubCommand` classes of 5.3.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""`checkMsgSendRT` is the function check_msg_send_rt."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a subcommand.

    Args:
        short: after one dash; may be two letters (`-qn`), or empty.
        long: after two dashes.
        has_value: a word follows.
        is_required: it has to be given.
    """

    short: str
    long: str
    has_value: bool
    is_required: bool

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
        family: the module of its function; None: it is not there yet, and `reason` says why.
        one_of: long names of options of which one has to be given.
        alias: another name of it.
    """

    name: str
    family: str | None
    summary: str
    options: tuple[Option, ...] = ()
    one_of: tuple[str, ...] = ()
    alias: str | None = None
    reason: str | None = None

    @property
    def function(self) -> str:
        """The name of its function in the family's module."""
        return _WORD.sub("_", self.name).lower()


def _options(text: str) -> tuple[Option, ...]:
    """Parse options as `t:topic=!`: short and long name, `=` for a value, `!` for one that is required; `_` is a blank."""
    found = []
    for word in text.split():
        short, _, rest = word.partition(":")
        long = rest.rstrip("=!").replace("_", " ")
        found.append(Option(short, long, "=" in rest, "!" in rest))
    return tuple(found)


def _row(
    name: str, family: str | None, summary: str, options: str = "", one_of: str = "", **more: str
) -> tuple[str, Subcommand]:
    return name, Subcommand(name, family, summary, _options(options), tuple(one_of.split()), **more)


_B_OR_C = "brokerAddr clusterName"
SUBCOMMANDS: Mapping[str, Subcommand] = dict(
    (
        # Topics
        _row(
            "updateTopic",
            "topics",
            "Create a topic, or change the one that is there.",
            "b:brokerAddr= c:clusterName= a:attributes= t:topic=! r:readQueueNums= w:writeQueueNums= p:perm= o:order= u:unit= s:hasUnitSub=",
            _B_OR_C,
        ),
        _row("deleteTopic", "topics", "Delete a topic from brokers and NameServers.", "t:topic=! c:clusterName=!"),
        _row(
            "updateTopicPerm",
            "topics",
            "Change a topic's permission.",
            "b:brokerAddr= c:clusterName= t:topic=! p:perm=!",
            _B_OR_C,
        ),
        _row("topicRoute", "topics", "Show a topic's route.", "t:topic=! l:list"),
        _row("topicStatus", "topics", "Show where each queue of a topic begins and ends.", "t:topic=! c:cluster="),
        _row("topicClusterList", "topics", "Show the clusters that have a topic.", "t:topic=!"),
        _row("topicList", "topics", "List all topics.", "c:clusterModel"),
        _row("allocateMQ", "topics", "Show how a topic's queues are shared among clients.", "t:topic=! i:ipList=!"),
        # NameServers
        _row(
            "updateOrderConf",
            "nameservers",
            "Show, set or delete the order configuration of a topic.",
            "t:topic=! v:orderConf= m:method=!",
        ),
        _row("updateKvConfig", "nameservers", "Set a key of a namespace.", "s:namespace=! k:key=! v:value=!"),
        _row("deleteKvConfig", "nameservers", "Delete a key of a namespace.", "s:namespace=! k:key=!"),
        _row("wipeWritePerm", "nameservers", "Take a broker's write permission.", "b:brokerName=!"),
        _row("addWritePerm", "nameservers", "Give a broker its write permission back.", "b:brokerName=!"),
        _row("getNamesrvConfig", "nameservers", "Show the settings of every NameServer.", "s:showSecrets"),
        _row("updateNamesrvConfig", "nameservers", "Change a setting of every NameServer.", "k:key=! v:value=!"),
        # Brokers
        _row(
            "brokerStatus", "brokers", "Show the run-time values of brokers.", "b:brokerAddr= c:clusterName=", _B_OR_C
        ),
        _row(
            "getBrokerConfig",
            "brokers",
            "Show the settings of brokers.",
            "b:brokerAddr= c:clusterName= s:showSecrets",
            _B_OR_C,
        ),
        _row(
            "updateBrokerConfig",
            "brokers",
            "Change a setting of brokers.",
            "b:brokerAddr= c:clusterName= a:updateAllBroker= k:key=! v:value=!",
            _B_OR_C,
        ),
        _row("producer", "brokers", "Show the producers that are connected to a broker.", "b:broker=!"),
        _row(
            "cleanUnusedTopic",
            "brokers",
            "Delete the consume queues of topics that are gone.",
            "b:brokerAddr= c:cluster=",
        ),
        _row(
            "cleanExpiredCQ", "brokers", "Delete consume queues of messages that are gone.", "b:brokerAddr= c:cluster="
        ),
        _row(
            "deleteExpiredCommitLog",
            "brokers",
            "Delete expired files of the CommitLog now.",
            "b:brokerAddr= c:cluster=",
        ),
        # Consumers
        _row(
            "consumerProgress",
            "consumers",
            "Show how far groups are; with -g one of them, queue by queue.",
            "g:groupName= t:topicName= s:showClientIP= c:cluster=",
        ),
        _row(
            "consumerStatus",
            "consumers",
            "Show what a client of a group says of itself; without -i write a file for each of them.",
            "g:consumerGroup=! i:clientId= b:brokerAddr= s:jstack",
        ),
        _row(
            "consumerConnection",
            "consumers",
            "Show the clients of a group and their subscriptions.",
            "g:consumerGroup=! b:brokerAddr=",
        ),
        _row(
            "producerConnection",
            "consumers",
            "Show the producers of a group that are connected to a topic's broker.",
            "g:producerGroup=! t:topic=!",
        ),
        _row("getConsumerConfig", "consumers", "Show a group's settings on every broker.", "g:groupName=!"),
        _row(
            "updateSubGroup",
            "consumers",
            "Create a group, or set all of its settings.",
            "b:brokerAddr= c:clusterName= g:groupName=! s:consumeEnable= m:consumeFromMinEnable= d:consumeBroadcastEnable= "
            "o:consumeMessageOrderly= q:retryQueueNums= r:retryMaxTimes= p:groupRetryPolicy= i:brokerId= "
            "w:whichBrokerWhenConsumeSlowly= a:notifyConsumerIdsChanged= :attributes=",
            _B_OR_C,
        ),
        _row(
            "deleteSubGroup",
            "consumers",
            "Delete a group; from a cluster with the topics of its retries and dead letters.",
            "b:brokerAddr= c:clusterName= g:groupName=! r:removeOffset=",
            _B_OR_C,
        ),
        _row(
            "setConsumeMode",
            "consumers",
            "Let a group pull a topic's messages, or pop them.",
            "b:brokerAddr= c:clusterName= t:topicName=! g:groupName=! m:mode=! q:popShareQueueNum=",
            _B_OR_C,
        ),
        _row(
            "brokerConsumeStats",
            "consumers",
            "Show how far every group of a broker is.",
            "b:brokerAddr=! t:timeoutMillis= l:level= o:order=",
        ),
        _row("startMonitoring", None, "Watch groups.", reason="`orbitmq doctor` and the metrics tell what is wrong"),
        # Offsets
        _row(
            "resetOffsetByTime",
            "offsets",
            "Let a group go on in a topic at a time; with -b and -q in one queue, with -o at an offset of it.",
            "g:group=! t:topic=! s:timestamp=! f:force= b:broker= q:queue= o:offset= c:cluster=",
        ),
        _row(
            "skipAccumulatedMessage",
            "offsets",
            "Let a group go on in a topic behind all messages that are there.",
            "g:group=! t:topic=! f:force= c:cluster=",
        ),
        _row(
            "cloneGroupOffset",
            "offsets",
            "Let a group go on in a topic where another one is.",
            "s:srcGroup=! d:destGroup=! t:topic=! o:offline=",
        ),
        # Messages
        _row(
            "queryMsgById",
            "messages",
            "Show messages by their ids; with -g and -d let a client consume them, with -s true send them again.",
            "t:topic=! i:msgId=! g:consumerGroup= d:clientId= s:sendMessage= u:unitName= f:bodyFormat= c:cluster=",
        ),
        _row(
            "queryMsgByKey",
            "messages",
            "List the messages of a key.",
            "t:topic=! k:msgKey=! b:beginTimestamp= e:endTimestamp= m:maxNum= c:cluster=",
        ),
        _row(
            "queryMsgByUniqueKey",
            "messages",
            "Show the message of a client's id; with -a all of them, with -g and -d let a client consume it.",
            "i:msgId=! g:consumerGroup= d:clientId= t:topic=! a:showAll c:cluster=",
        ),
        _row(
            "queryMsgByOffset",
            "messages",
            "Show the message at an offset of a queue.",
            "t:topic=! b:brokerName=! i:queueId=! o:offset=! f:bodyFormat=!",
        ),
        _row(
            "queryMsgTraceById",
            "messages",
            "Show what producers and consumers have traced of a message.",
            "i:msgId=! t:traceTopic= b:beginTimestamp= e:endTimestamp= c:maxNum=",
            alias="QueryMsgTraceById",
        ),
        _row(
            "printMsg",
            "messages",
            "Print the messages of every queue of a topic.",
            "t:topic=! c:charsetName= s:subExpression= b:beginTimestamp= e:endTimestamp= d:printBody= l:lmqParentTopic=",
        ),
        _row(
            "printMsgByQueue",
            "messages",
            "Print the messages of one queue with -p true, or count them by tag with -f true.",
            "t:topic=! a:brokerName=! i:queueId=! c:charsetName= s:subExpression= b:beginTimestamp= e:endTimestamp= "
            "p:print_msg= d:printBody= f:calculate=",
        ),
        _row(
            "consumeMessage",
            "messages",
            "Read messages of a topic, of one queue with -b and -i, and commit nothing.",
            "t:topic=! b:brokerName= i:queueId= o:offset= g:consumerGroup= s:beginTimestamp= e:endTimestamp= "
            "c:MessageNumber=",
        ),
        _row(
            "queryCq",
            "messages",
            "Show entries of a consume queue.",
            "t:topic=! q:queue=! i:index=! c:count= b:broker= g:consumer=",
        ),
        _row(
            "sendMessage",
            "sending",
            "Send one message: to any queue, to a broker's with -b, to one of them with -i.",
            "t:topic=! p:body=! k:key= c:tags= b:broker= i:qid= m:msgTraceEnable=",
        ),
        _row(
            "sendMsgStatus",
            "sending",
            "Send messages to the topic of a broker's name, and show how long each took.",
            "b:brokerName=! s:messageSize= c:count=",
        ),
        _row(
            "checkMsgSendRT",
            "sending",
            "Send messages to a topic's queues, and show how long each took.",
            "t:topic=! a:amount= s:size=",
        ),
        _row(
            "clusterRT",
            "sending",
            "Send messages to every broker, and show how long they took; with -i again and again.",
            "a:amount= s:size= c:cluster= p:print_log= m:machine_room= i:interval=",
        ),
        # Users and rules
        _row(
            "createUser",
            "auth",
            "Make a user.",
            "c:clusterName= b:brokerAddr= u:username=! p:password=! t:userType=",
            _B_OR_C,
        ),
        _row(
            "updateUser",
            "auth",
            "Change a user's password, type or status.",
            "c:clusterName= b:brokerAddr= u:username=! p:password= t:userType= s:userStatus=",
            _B_OR_C,
        ),
        _row(
            "deleteUser",
            "auth",
            "Delete a user and its rules.",
            "c:clusterName= b:brokerAddr= u:username=!",
            _B_OR_C,
        ),
        _row(
            "getUser",
            "auth",
            "Show a user.",
            "b:brokerAddr= c:clusterName= u:username= s:showSecrets",
            _B_OR_C,
        ),
        _row(
            "listUser",
            "auth",
            "List users, with -f those whose names contain a text.",
            "b:brokerAddr= c:clusterName= f:filter= s:showSecrets",
            _B_OR_C,
        ),
        _row(
            "copyUser",
            "auth",
            "Copy users from one broker to another.",
            "f:fromBroker=! t:toBroker=! u:usernames=",
        ),
        _row(
            "createAcl",
            "auth",
            "Add rules to a subject's.",
            "c:clusterName= b:brokerAddr= s:subject=! r:resources=! a:actions=! i:sourceIp= d:decision=!",
            _B_OR_C,
        ),
        _row(
            "updateAcl",
            "auth",
            "Change a subject's rules about some resources.",
            "c:clusterName= b:brokerAddr= s:subject=! r:resources=! a:actions=! d:decision=! i:sourceIp=",
            _B_OR_C,
        ),
        _row(
            "deleteAcl",
            "auth",
            "Delete a subject's rules, or the one about a resource.",
            "c:clusterName= b:brokerAddr= s:subject=! r:resources=",
            _B_OR_C,
        ),
        _row(
            "getAcl",
            "auth",
            "Show a subject's rules.",
            "b:brokerAddr= c:clusterName= s:subject=",
            _B_OR_C,
        ),
        _row(
            "listAcl",
            "auth",
            "List rules, with -s and -r those of subjects and about resources that contain a text.",
            "b:brokerAddr= c:clusterName= s:subject= r:resource=",
            _B_OR_C,
        ),
        _row(
            "copyAcl",
            "auth",
            "Copy rules from one broker to another.",
            "f:fromBroker=! t:toBroker=! s:subjects=",
        ),
        # Replication
        _row(
            "haStatus",
            "replication",
            "Show which slaves follow a master, and how far.",
            "c:clusterName= b:brokerAddr= i:interval=",
            _B_OR_C,
        ),
        _row(
            "getSyncStateSet",
            "replication",
            "Show the members of a broker name in and out of their sync set.",
            "a:controllerAddress=! c:clusterName= b:brokerName= i:interval=",
            "brokerName clusterName",
        ),
        _row(
            "getBrokerEpoch",
            "replication",
            "Show in which epochs the logs of members were written.",
            "c:clusterName= b:brokerName= i:interval=",
            "brokerName clusterName",
        ),
        _row(
            "resetMasterFlushOffset",
            "replication",
            "Tell a slave up to where its master's log is on the disk.",
            "b:brokerAddr= o:offset=",
        ),
        # Controllers
        _row(
            "getControllerMetaData",
            "controllers",
            "Show the controllers, and which one leads.",
            "a:controllerAddress=!",
        ),
        _row(
            "getControllerConfig",
            "controllers",
            "Show the settings of controllers.",
            "a:controllerAddress=!",
        ),
        _row(
            "updateControllerConfig",
            "controllers",
            "Change a setting of controllers.",
            "a:controllerAddress=! k:key=! v:value=!",
        ),
        _row(
            "electMaster",
            "controllers",
            "Let a member of a sync set become the master.",
            "a:controllerAddress=! b:brokerId=! bn:brokerName=! c:clusterName=!",
        ),
        _row(
            "cleanBrokerMetadata",
            "controllers",
            "Let controllers forget members of a broker name, or all of it.",
            "a:controllerAddress=! b:brokerControllerIdsToClean= bn:brokerName=! c:clusterName= l:cleanLivingBroker",
        ),
        # Statistics, lists, exports, cold data
        _row(
            "statsAll",
            "exports",
            "Show of every topic and group the messages per second and per day.",
            "a:activeTopic t:topic=",
        ),
        _row(
            "updateTopicList",
            "exports",
            "Create or change the topics that a JSON file lists.",
            "b:brokerAddr= c:clusterName= f:filename=!",
            _B_OR_C,
        ),
        _row(
            "updateSubGroupList",
            "exports",
            "Create or change the groups that a JSON file lists.",
            "b:brokerAddr= c:clusterName= f:filename=!",
            _B_OR_C,
        ),
        _row(
            "exportMetadata",
            "exports",
            "Write the settings of topics and groups to a JSON file.",
            "c:clusterName= b:brokerAddr= f:filePath= t:topic g:subscriptionGroup s:specialTopic",
            _B_OR_C,
        ),
        _row(
            "exportConfigs",
            "exports",
            "Write the most important settings of a cluster's masters to a JSON file.",
            "c:clusterName=! f:filePath=",
        ),
        _row(
            "exportMetrics",
            "exports",
            "Write rates, counts and sizes of a cluster's masters to a JSON file.",
            "c:clusterName=! f:filePath=",
        ),
        _row(
            "getColdDataFlowCtrInfo",
            "exports",
            "Show the limits on reading what is no longer in memory.",
            "b:brokerAddr= c:clusterName=",
            _B_OR_C,
        ),
        _row(
            "updateColdDataFlowCtrGroupConfig",
            "exports",
            "Limit how much a group reads of what is no longer in memory.",
            "b:brokerAddr= c:clusterName= g:consumerGroup=! v:threshold=!",
            _B_OR_C,
        ),
        _row(
            "removeColdDataFlowCtrGroupConfig",
            "exports",
            "Take such a limit away.",
            "b:brokerAddr= c:clusterName= g:consumerGroup=!",
            _B_OR_C,
        ),
        _row(
            "setCommitLogReadAheadMode",
            "exports",
            "Let the system read ahead in the CommitLog, or not.",
            "b:brokerAddr= c:clusterName= m:commitLogReadAheadMode=!",
            _B_OR_C,
        ),
        # Not there
        _row(
            "addBroker",
            None,
            "Start a broker in a container.",
            "c:brokerContainerAddr=! b:brokerConfigPath=!",
            reason="our brokers run in processes of their own, not in containers",
        ),
        _row(
            "removeBroker",
            None,
            "Stop a broker in a container.",
            "c:brokerContainerAddr=! b:brokerIdentity=!",
            reason="our brokers run in processes of their own, not in containers",
        ),
        _row(
            "updateStaticTopic",
            None,
            "Create a static topic, or change it.",
            "c:clusters= b:brokers= t:topic=! qn:totalQueueNum=! mf:mapFile= fr:forceReplace=",
            reason="a static topic is made with Java's mqadmin, and our brokers serve it",
        ),
        _row(
            "remappingStaticTopic",
            None,
            "Move queues of a static topic.",
            "c:clusters= b:brokers= t:topic=! mf:mapFile= fr:forceReplace=",
            reason="a static topic is moved with Java's mqadmin, and our brokers serve it",
        ),
        _row(
            "exportMetadataInRocksDB",
            None,
            "Print tables that are kept in RocksDB.",
            "p:path=! t:configType=! j:jsonEnable=",
            reason="our brokers keep no tables and no queues in RocksDB",
        ),
        _row(
            "rocksDBConfigToJson",
            None,
            "Write tables that are kept in RocksDB as JSON.",
            "t:configType= p:configPath= e:exportFile= j:jsonEnable= n:nameserverAddr= c:cluster= b:brokerAddr=",
            reason="our brokers keep no tables and no queues in RocksDB",
        ),
        _row(
            "checkRocksdbCqWriteProgress",
            None,
            "Compare consume queues in RocksDB with those in files.",
            "c:cluster=! n:nameserverAddr=! t:topic= cf:checkFrom=",
            reason="our brokers keep no tables and no queues in RocksDB",
        ),
        _row(
            "exportPopRecord",
            None,
            "Write records of popped messages from RocksDB to a topic.",
            "c:clusterName= b:brokerAddr= d:dryRun=",
            reason="our brokers keep no records of popped messages in RocksDB",
        ),
        _row(
            "dumpCompactionLog",
            None,
            "Print a log of a compacted topic.",
            "f:file=",
            reason="our brokers compact no topics",
        ),
        # Clusters
        _row(
            "clusterList",
            "clusters",
            "List brokers with their load.",
            "m:moreStats i:interval= c:clusterName=",
        ),
    )
)
"""By name."""
