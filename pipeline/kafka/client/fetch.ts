// Fetch, version 13: the first that identifies a topic by id, so that a recreated topic of the same name is never mistaken for the old one.
//
//   answer     throttleMs int32 · error int16 · sessionId int32 · topics [topicId uuid · partitions [partition int32 · error int16 ·
//              highWatermark int64 · lastStableOffset int64 · logStartOffset int64 · aborted [producerId int64 · firstOffset int64] ·
//              preferredReplica int32 · records bytes]]
//
// The client encodes the request. Its decoder of the answer would also decode the records, which record-set.ts does here, and would fail the
// whole answer if one partition has an error. So the answer is decoded here, with the client's reader.

import { type API, type Connection, createAPI, fetchV13, Reader } from '@platformatic/kafka'
import { type LogPartition, logOf, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import type { FetchAnswer, FetchedPartition, FetchRequest } from '../consumer/broker.ts'

const readCommitted = 1
const noSession = { id: 0, epoch: -1 }
const unknown = -1
const nothing = Buffer.alloc(0)

/** An answer, and how long the broker throttles this connection. */
type Throttled = FetchAnswer & { readonly throttleMs: number }

/** Its topics may repeat, as those of the request. */
interface WireAnswer {
  readonly throttleMs: number
  readonly error: number
  readonly topics: readonly { readonly id: string; readonly partitions: readonly WirePartition[] }[]
}
type WirePartition = Omit<FetchedPartition, 'at'> & { readonly partition: number }

// Contiguous bytes: record sets are views into them.
const fetchApi: API<Parameters<typeof fetchV13.createRequest>, WireAnswer> = createAPI(
  fetchV13.api.key,
  fetchV13.api.version,
  fetchV13.createRequest,
  (_id: number, _key: number, _version: number, { buffer, position }: Reader): WireAnswer =>
    readAnswer(Reader.from(buffer.slice(position))),
)

/** Sends one request. Throws errors of the connection; a truncated answer fails the request. */
export async function fetchOn(connection: Connection, request: FetchRequest): Promise<Throttled> {
  const { topicIds, waitMs, bytesMax } = request
  const topics = topicsOf(request)
  const answer = await fetchApi.async(connection, waitMs, 1, bytesMax, readCommitted, noSession.id, noSession.epoch, topics, [], '')
  const partitions = answer.topics.flatMap(({ id, partitions }) => {
    const log = topicIds.indexOf(id)
    return partitions.map(({ partition, ...found }): FetchedPartition => ({ at: logPartition(log, partition), ...found }))
  })
  return { throttleMs: answer.throttleMs, error: answer.error, partitions }
}

type WireTopics = Parameters<typeof fetchV13.createRequest>[6]

/** The request's partitions in its order, which is that in which the broker fills its answer: a topic comes once for each run of its partitions. */
function topicsOf({ topicIds, partitions, partitionBytesMax }: FetchRequest): WireTopics {
  const topics: WireTopics = []
  let previous: LogPartition | undefined
  for (const { at, offset } of partitions) {
    if (previous === undefined || logOf(previous) !== logOf(at)) topics.push({ topicId: topicIds[logOf(at)]!, partitions: [] })
    topics.at(-1)!.partitions.push({
      partition: partitionOf(at),
      currentLeaderEpoch: unknown,
      fetchOffset: BigInt(offset),
      lastFetchedEpoch: unknown,
      partitionMaxBytes: partitionBytesMax,
    })
    previous = at
  }
  return topics
}

function readAnswer(from: Reader): WireAnswer {
  const throttleMs = from.readInt32()
  const error = from.readInt16()
  from.readInt32()
  const topics = from.readArray(() => ({ id: from.readUUID(), partitions: from.readArray(() => readPartition(from)) }))
  return { throttleMs, error, topics }
}

function readPartition(from: Reader): WirePartition {
  const partition = from.readInt32()
  const error = from.readInt16()
  // Skips the ends of the partition, which are not needed.
  from.skip(24)
  // Numbers are exact below 2^53, and brokers assign producer ids from 0 up.
  const aborted = from.readArray(() => ({ producerId: Number(from.readInt64()), firstOffset: Number(from.readInt64()) }))
  from.readInt32()
  return { partition, error, aborted, records: from.readNullableBytes() ?? nothing }
}
