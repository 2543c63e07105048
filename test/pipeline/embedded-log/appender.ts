// A process that appends to the log in the given folder until it is killed, and prints each acknowledgement.

import { outgoing } from '../message.ts'
import { openLogIn } from './folder.ts'

const [folder, name] = process.argv.slice(2)
const log = openLogIn(folder!)
let next = 0

async function publish(): Promise<void> {
  while (true) {
    const payload = `${name}-${next++}`
    const [position] = await log.append([outgoing({ payload: new TextEncoder().encode(payload) })])
    await new Promise(resolve => process.stdout.write(`${position!.offset} ${payload}\n`, resolve))
  }
}

await Promise.all(Array.from({ length: 16 }, publish))
