// Sends the PUBACKs of one connection to a broker, in the order in which it sent the messages (MQTT 5 §4.6).

interface Waiting {
  readonly id: number
  isStored: boolean
}

/** Without a reason code both versions of MQTT have the same PUBACK (MQTT 5 §3.4.2.1): type and flags, a length of 2, the packet id. */
const pubackHead = [0x40, 2] as const

/**
 * @param write many at once, because messages become durable in batches
 * @returns takes the packet id of a message and whether it is stored; of those before one that is not, none is held back
 */
export function openAcknowledgements(write: (packets: Buffer) => void): (id: number, isStored: Promise<boolean>) => void {
  const waiting: Waiting[] = []
  let flushing: NodeJS.Immediate | undefined

  function flush(): void {
    flushing = undefined
    const count = waiting.findIndex(({ isStored }) => !isStored)
    const stored = waiting.splice(0, count < 0 ? waiting.length : count)
    if (stored.length > 0) write(Buffer.from(stored.flatMap(({ id }) => [...pubackHead, id >> 8, id & 0xff])))
  }

  return (id, isStored) => {
    const one = { id, isStored: false }
    waiting.push(one)
    void isStored.then(answer => {
      one.isStored = answer
      flushing ??= setImmediate(flush)
    })
  }
}
