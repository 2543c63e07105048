// What was sent with QoS 1 or 2 and is not acknowledged. Packet ids stay the same when the session goes on (MQTT 5 §4.4).

import type { KeptDelivery, LogOffset } from '../sessions/records.ts'

const idMax = 65_535

export function openInFlight() {
  const waiting = new Map<number, KeptDelivery>()
  /** Not sent on this connection, by log offset. */
  const repeats = new Map<string, KeptDelivery>()
  let lastId = 0

  function nextId(): number {
    do lastId = lastId === idMax ? 1 : lastId + 1
    while (waiting.has(lastId) || [...repeats.values()].some(({ id }) => id === lastId))
    return lastId
  }

  return {
    /** Messages that wait for the client on this connection. */
    get size(): number {
      return waiting.size
    },
    /** Whether there are messages that waited on an earlier connection. */
    get hasRepeats(): boolean {
      return repeats.size > 0
    },
    /** The QoS of a message that waited on an earlier connection, and was not sent on this one; undefined for any other. */
    repeatQos: (at: LogOffset): 1 | 2 | undefined => (repeats.size > 0 ? repeats.get(nameOf(at))?.qos : undefined),
    /** @param at undefined: it is retained, and not sent on a later connection. @returns its packet id: of a repeat the one it had */
    begin(at: LogOffset | undefined, qos: 1 | 2): number {
      const name = at !== undefined && repeats.size > 0 ? nameOf(at) : ''
      const repeat = repeats.get(name)
      const id = repeat?.id ?? nextId()
      repeats.delete(name)
      waiting.set(id, { id, qos, ...(at && { at }) })
      return id
    },
    /** Takes a PUBREC: the client has the message. @returns whether it is the first; undefined if no message waits for it */
    received(id: number): boolean | undefined {
      const delivery = waiting.get(id)
      if (delivery?.qos !== 2) return undefined
      waiting.set(id, { id, qos: 2 })
      return delivery.at !== undefined
    },
    /** Takes a PUBACK, or a PUBCOMP. @returns false if nothing waits for it */
    end: (id: number, qos: 1 | 2): boolean => waiting.get(id)?.qos === qos && waiting.delete(id),
    /** Everything that waits, also on a later connection. @param endOf the offset below which all was sent or left out; undefined: nothing more is sent */
    state(endOf: (at: LogOffset) => number | undefined): KeptDelivery[] {
      const sent = sentAgain([...waiting.values()], at => endOf(at) !== undefined)
      return [...sent, ...sentAgain([...repeats.values()], at => at.offset >= (endOf(at) ?? Infinity))]
    },
    /** Goes on with what waited on an earlier connection. */
    resume(kept: readonly KeptDelivery[]): void {
      for (const delivery of kept) {
        const { id, at } = delivery
        if (at === undefined) waiting.set(id, delivery)
        else repeats.set(nameOf(at), delivery)
      }
    },
  }
}

/** Without those that are not sent again: of QoS 2 the client may have the id in use, until a PUBREL. */
export function sentAgain(kept: readonly KeptDelivery[], isSent: (at: LogOffset) => boolean): KeptDelivery[] {
  return kept.flatMap(delivery => {
    const { id, qos, at } = delivery
    if (at !== undefined && isSent(at)) return [delivery]
    return qos === 2 ? [{ id, qos }] : []
  })
}

function nameOf({ channel, partition, offset }: LogOffset): string {
  return `${channel} ${partition} ${offset}`
}
