// The contract of a client: what a consumer asks of one broker, and how it is told what went wrong. Whatever is above knows no client.

import type { Positions } from '../../../sinks/sink.ts'
import type { FetchAnswer, FetchQuestion } from './fetch-request.ts'
import type { Metadata } from './metadata-request.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface GroupMember {
  readonly memberId: string
  /** Its subscription (assignment.ts). */
  readonly metadata: Buffer
}

/** A member in one generation of its group. */
export interface InGeneration {
  readonly group: string
  readonly memberId: string
  readonly generation: number
}

export interface JoinQuestion {
  readonly group: string
  /** Empty where the group has not given one yet. */
  readonly memberId: string
  readonly sessionMs: number
  readonly rebalanceMs: number
  readonly protocol: string
  readonly metadata: Buffer
  /** Told of the id that the group gives a new member, as early as the client says it: the answer itself waits for the whole group. */
  readonly onMemberId?: (memberId: string) => void
}

export interface Joined {
  readonly generation: number
  readonly memberId: string
  /** Who gives out the partitions. */
  readonly leaderId: string
  /** For the leader alone. */
  readonly members: readonly GroupMember[]
}

export interface SyncQuestion extends InGeneration {
  readonly protocol: string
  /** How long the group waits for its leader. */
  readonly rebalanceMs: number
  /** By member; of the leader alone. */
  readonly assignments: ReadonlyMap<string, Buffer>
}

/** What is at an end of a partition, as a time is asked for. */
export const OffsetAt = { start: -2, end: -1 } as const

/**
 * A broker that is connected. Nothing waits behind a fetch; an answer is given up when its time is over.
 *
 * Calls throw BrokerError for what the broker answered, SystemicError for a broker that cannot be used, and whatever else for a connection
 * that is of no more use: cut, silent, or its answers make no sense.
 */
export interface KafkaBroker {
  /** False where a connection of it is gone. */
  isWhole(): boolean
  metadata(topic: string): Promise<Metadata>
  fetch(question: FetchQuestion): Promise<FetchAnswer>
  /** Offsets of partitions that it leads, whether committed or not. */
  offsets(topic: string, partitions: readonly number[], at: (typeof OffsetAt)[keyof typeof OffsetAt]): Promise<Positions>
  coordinatorOf(group: string): Promise<Address>
  /** Answered when the whole group has joined. */
  join(question: JoinQuestion): Promise<Joined>
  /** The member's assignment; empty where it got none. */
  sync(question: SyncQuestion): Promise<Buffer>
  heartbeat(member: InGeneration): Promise<void>
  leave(group: string, memberId: string): Promise<void>
  /** Of the partitions asked for, those that have a commit. */
  committed(group: string, topic: string, partitions: readonly number[]): Promise<Positions>
  commit(member: InGeneration, topic: string, positions: Positions): Promise<void>
  /** Ends its connections and what is under way, without waiting for answers. */
  end(): void
}

/** Opens a broker: the client's part of a consumer. */
export type ConnectBroker = (address: Address) => Promise<KafkaBroker>

/** What a broker answered in place of what was asked for. */
export class BrokerError extends Error {
  override readonly name = 'BrokerError'
  /** Kafka's number of it. */
  readonly apiCode: number

  constructor(apiCode: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.apiCode = apiCode
  }
}
