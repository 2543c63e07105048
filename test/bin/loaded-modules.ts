// Loaded first by a process under test: notes the modules that each of its threads loads, Node's own aside, in the file TEST_LOADED.

import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { threadId } from 'node:worker_threads'

const notes = process.env['TEST_LOADED']!
registerHooks({
  load(url, context, next) {
    if (url.startsWith('file:')) appendFileSync(notes, `${threadId} ${url}\n`)
    return next(url, context)
  },
})
