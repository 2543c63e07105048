// The thread of one worker: what the pool starts.

import { parentPort, workerData } from 'node:worker_threads'
import { serveWorker } from '../pipeline/workers/worker.ts'
import { openWriterWorker, type WorkerSettings } from './writer-worker.ts'

await serveWorker(parentPort!, (events, signal) => openWriterWorker(workerData as WorkerSettings, events, signal))
