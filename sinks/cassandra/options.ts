// Options of the Cassandra sink: the section `store` of a writer to it.

import { type Static, Type } from 'typebox'
import { formatOptions } from '../format-registry.ts'
import type { Login } from '../login.ts'
import { problemsOfServerUrl, readServerUrl } from './server-url.ts'

export const consistencyNames = ['ONE', 'LOCAL_ONE', 'TWO', 'THREE', 'QUORUM', 'LOCAL_QUORUM', 'EACH_QUORUM', 'ALL'] as const
export const serialConsistencyNames = ['SERIAL', 'LOCAL_SERIAL'] as const

export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^cassandra://.',
    secret: true,
    environment: 'SVC_WIDECOLUMN_URL',
    allowed: 'a URL such as cassandra://host:9042,host:9042/keyspace?dc=datacenter1',
    description:
      'The Cassandra cluster and the keyspace that messages are stored in: hosts to begin with, and the data center that is near.',
  }),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Role to log in as; counts more than that of the URL.' })),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That role's password." })),
  tls: Type.Boolean({
    default: false,
    description: 'Encrypt, and check that the nodes are who they say; also where one of the files below is given.',
  }),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: "Authority of the nodes' certificates, as PEM, in place of the system's." }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate to show to the nodes (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  tlsName: Type.Optional(
    Type.String({
      minLength: 1,
      description: "Name that the nodes' certificates are for, where they do not name the address of each node.",
    }),
  ),
  consistency: Type.Enum([...consistencyNames], {
    default: 'LOCAL_QUORUM',
    description: 'How many replicas must have a row before it counts as stored.',
  }),
  serialConsistency: Type.Enum([...serialConsistencyNames], {
    default: 'SERIAL',
    description:
      'How logs and formats are registered. `LOCAL_SERIAL` only where all writers of the keyspace are near the same data center.',
  }),
  replication: Type.String({
    default: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    pattern: "^\\{( *'[A-Za-z0-9_.-]+' *: *('[A-Za-z0-9_./-]+'|[0-9]+) *,?)+ *\\}$",
    allowed: "a map of CQL such as {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
    description: 'Replication of a keyspace that is made because it is missing. One that is there keeps its own.',
  }),
  bucketDays: Type.Integer({
    default: 1,
    minimum: 1,
    maximum: 366,
    description: 'Days of a channel that lie in one partition. Fixed when the tables are made.',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description: 'Days of messages that are kept beside the current one; partitions of older ones are deleted. 0 keeps all.',
  }),
  publisherIndex: Type.Boolean({
    default: true,
    description:
      "Index the tables by publisher, so that one thing's messages are found without reading its channel's. It costs the nodes two thirds more time for a row; an index that is there stays.",
  }),
  requestsInFlightMax: Type.Integer({
    default: 256,
    minimum: 4,
    maximum: 2_000,
    description: 'Requests that one worker has under way at most. How many it has follows from how quickly they are answered.',
  }),
  connectTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds after which a node that cannot be connected is given up, and the next one tried.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 12_000,
    minimum: 500,
    maximum: 600_000,
    description:
      'Milliseconds after which a request without an answer is given up, and its connection with it; its batch is written again.',
  }),
  ...formatOptions,
})
export type SinkOptions = Static<typeof sinkOptions>

/** What can be known to be wrong with the URL before the start; no part of a secret in it. */
export function urlFaults(url: string): { problem: string }[] {
  return problemsOfServerUrl(url).map(problem => ({ problem }))
}

/** By option name, what must be none of the known secrets. */
export function secretsOf({ url, password }: Pick<SinkOptions, 'url' | 'password'>): Record<string, string | undefined> {
  return { 'store.url': credentialsOf(url).password, 'store.password': password }
}

/** What the URL says of who comes; nothing where it cannot be read. */
export function credentialsOf(url: string): Login {
  return problemsOfServerUrl(url).length === 0 ? readServerUrl(url) : {}
}
