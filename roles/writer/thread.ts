// Entry of a worker thread, started by the pool.

import { parentPort, workerData } from 'node:worker_threads'
import { serveWorker } from '../../pipeline/writer/workers/worker.ts'
import { openWriterWorker, type WorkerSettings } from './worker.ts'

await serveWorker(parentPort!, (events, signal) => openWriterWorker(workerData as WorkerSettings, events, signal))
