// A worker without a thread: exchanges the same messages with the pool, in the main thread.

import { EventEmitter } from 'node:events'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { WorkerThread } from './pool.ts'

/** @param serve what a thread's file does with its parent port */
export function workInMainThread(serve: (port: MessagePort) => Promise<void>): WorkerThread {
  const { port1: outer, port2: inner } = new MessageChannel()
  const events = new EventEmitter()
  outer.on('message', message => events.emit('message', message))
  // Its last message arrives before the channel closes.
  outer.on('close', () => events.emit('exit', 0))
  serve(inner).catch((error: unknown) => {
    events.emit('error', error)
    inner.close()
  })
  return {
    on: (event: string, listener: (value: never) => void) => events.on(event, listener as (value: unknown) => void),
    postMessage: message => outer.postMessage(message),
    async terminate() {
      outer.close()
      return 0
    },
  }
}
