// The messages of a channel for a group: each goes to one of its members, in turn. What one of them leaves without an acknowledgement goes to another.
//
// The channel is followed once. Nothing is queued: while no member has space the group waits in the log, and what a member leaves is read there again.

import { endsOf, type Follower, type Following, type LiveMessage, type LiveMessages } from './messages.ts'

export interface Member {
  /** Whether it takes a message now. When it does again, `wake` is called. */
  hasSpace(): boolean
  /** Takes a message. Called while it has space. @param done to be called when it is acknowledged, or at once if it will not be */
  take(message: LiveMessage, isRepeat: boolean, done: () => void): void
}

/** Where a group is in the log: the offset of the next message, by partition. */
export interface GroupPosition {
  /** Identifies the log, as in a stream's offset. */
  readonly log: string
  /** All before it was acknowledged. */
  readonly acknowledged: readonly number[]
  /** All from it on was given to no member. */
  readonly taken: readonly number[]
  /** Partition and offset of what is below that and not acknowledged; absent if that is too much, and all from `acknowledged` on counts. */
  readonly unacknowledged?: readonly (readonly [partition: number, offset: number])[]
}

export interface DispatchParts {
  readonly live: LiveMessages
  readonly channel: string
  /** In the order of their turns, as they come and go. */
  readonly members: Set<Member>
  /** What the group does not want counts as acknowledged. */
  readonly isWanted: (message: LiveMessage) => boolean
  readonly onProgress: () => void
  /** The log deleted messages before a member could take them. */
  readonly onLost: () => void
  /** The log cannot be followed: no more messages follow, and what members have is not known any more. */
  readonly onEnd: () => void
}

export type Dispatch = Awaited<ReturnType<typeof openDispatch>>

interface Given {
  readonly partition: number
  readonly offset: number
  /** undefined: it has left. */
  member: Member | undefined
}

const unacknowledgedMax = 1_000

/** @param after undefined: with messages written from now on @throws LiveUnavailableError */
export async function openDispatch(
  { live, channel, members, isWanted, onProgress, onLost, onEnd }: DispatchParts,
  after: GroupPosition | undefined,
) {
  /** What is not acknowledged. */
  const given = new Map<string, Given>()
  const taken: number[] = []
  let waiting: PromiseWithResolvers<void> | undefined
  const ends = after?.unacknowledged === undefined ? [] : await endsOf(live, channel)
  let following = await follow(after?.log, after?.acknowledged)
  if (after?.unacknowledged !== undefined && following.log === after.log) {
    // What the log lost at its end meanwhile has offsets that are given again.
    for (const [partition, end] of ends.entries()) taken.push(Math.min(after.taken[partition] ?? 0, end))
    for (const [partition, offset] of after.unacknowledged) given.set(`${partition} ${offset}`, { partition, offset, member: undefined })
    forgetDeleted()
  }
  let isGoingBack = false
  let round = 0

  /** @param offsets undefined: from now on */
  function follow(log = '', offsets?: readonly number[]): Promise<Following> {
    return live.follow(channel, offsets && { log, offsets, partition: 0, rows: 0 })
  }

  /** What was left and is before the offsets that are followed is not in the log. */
  function forgetDeleted(): void {
    const { offsets } = following.streamOffset()
    for (const [name, { partition, offset, member }] of given) if (member === undefined && offset < offsets[partition]!) given.delete(name)
  }

  function wake(): void {
    waiting?.resolve()
    waiting = undefined
  }

  function stop(): void {
    round++
    following.stop()
    wake()
  }

  function end(): void {
    stop()
    onEnd()
  }

  function next(): Member | undefined {
    for (const member of members) if (member.hasSpace()) return member
    return undefined
  }

  const follower: Follower = {
    partsOf: () => 1,
    take(message, first, last) {
      const { partition, offset } = message
      const name = `${partition} ${offset}`
      const known = given.get(name)
      const isTaken = offset < (taken[partition] ?? 0)
      if (isTaken && (known === undefined || known.member !== undefined)) return last
      if (isWanted(message)) {
        const member = next()
        if (member === undefined) return first
        // Behind the others.
        members.delete(member)
        members.add(member)
        const own: Given = { partition, offset, member }
        given.set(name, own)
        member.take(message, isTaken, () => {
          if (given.get(name) === own) given.delete(name)
          onProgress()
        })
      }
      taken[partition] = Math.max(taken[partition] ?? 0, offset + 1)
      onProgress()
      return last
    },
    space() {
      if (next() !== undefined) return undefined
      waiting ??= Promise.withResolvers<void>()
      return waiting.promise
    },
    lost(shortened) {
      onLost()
      if (shortened !== undefined) taken[shortened.partition] = Math.min(taken[shortened.partition] ?? 0, shortened.end)
      if (isGoingBack) goBack().catch(end)
      else forgetDeleted()
    },
    end,
  }

  function position(): GroupPosition {
    const acknowledged = [...following.streamOffset().offsets]
    const latest = acknowledged.map((offset, partition) => Math.max(offset, taken[partition] ?? 0))
    for (const { partition, offset } of given.values()) acknowledged[partition] = Math.min(acknowledged[partition]!, offset)
    const unacknowledged = [...given.values()].map(({ partition, offset }) => [partition, offset] as const)
    return { log: following.log, acknowledged, taken: latest, ...(given.size <= unacknowledgedMax && { unacknowledged }) }
  }

  async function goBack(): Promise<void> {
    // What members still have is not read again.
    const back = [...following.streamOffset().offsets]
    for (const { partition, offset, member } of given.values())
      if (member === undefined) back[partition] = Math.min(back[partition]!, offset)
    isGoingBack = true
    const own = ++round
    const found = await follow(following.log, back).catch((error: unknown) => {
      if (own === round) throw error
    })
    if (found === undefined || own !== round) return found?.stop()
    // Until now, so that no loss of the log is missed.
    following.stop()
    following = found
    isGoingBack = false
    forgetDeleted()
    if (found.lost) onLost()
    following.start(follower)
  }

  return {
    start(): void {
      if (following.lost) onLost()
      following.start(follower)
    },
    position,
    /** A member came, or has space again. */
    wake,
    /** A member has left: what it has not acknowledged goes to others. */
    left(member: Member): void {
      const own = [...given.values()].filter(one => one.member === member)
      for (const one of own) one.member = undefined
      if (own.length > 0) goBack().catch(end)
    },
    stop,
  }
}
