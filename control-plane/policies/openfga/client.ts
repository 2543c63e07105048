// A client of OpenFGA: checks, reads and writes of policies in one store under one model, translated to OpenFGA's terms.
//
//   a user          user:<id>                  everyone      user:*
//   an object       entity:<id>, entity:users, entity:authorities
//   members of a group                         entity:<group id>#member

import type { GroupId, ThingId, UserId } from '../../ids.ts'
import { objectsMax, type Policy, type PolicyFilter, type PolicyObject, type Relation, relations, type Subject } from '../policy-store.ts'
import type { OpenFgaRequests } from './requests.ts'

/** Where the policies are. */
export interface OpenFgaStore {
  readonly storeId: string
  readonly modelId: string
}

type Before = () => unknown

export interface OpenFgaClient {
  /** Creates a store with our model in it. */
  makeStore(): Promise<OpenFgaStore>
  check(store: OpenFgaStore, subject: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>
  /** @param before runs before each page, and ends it by throwing */
  read(store: OpenFgaStore, of: PolicyFilter, before?: Before): Promise<Policy[]>
  /**
   * Policies that exist already, or no longer exist, are not errors. Writes in parts, so a failure may leave some of them written.
   *
   * @param before runs before each part, and ends it by throwing
   */
  write(
    store: OpenFgaStore,
    change: { readonly add?: readonly Policy[]; readonly remove?: readonly Policy[] },
    before?: Before,
  ): Promise<void>
  /**
   * The objects on which the subject has the relation, also through groups: at most `objectsMax`, and only those that the server finds within its
   * deadline (`OPENFGA_LIST_OBJECTS_DEADLINE`, 3 s); it does not say when it leaves some out.
   */
  objects(store: OpenFgaStore, subject: UserId, relation: Relation): Promise<PolicyObject[]>
}

interface Tuple {
  readonly user: string
  readonly relation: Relation
  readonly object: string
}

const assignable = [{ type: 'user' }, { type: 'user', wildcard: {} }, { type: 'entity', relation: 'member' }]
/** No relation implies another: a user who may write may not therefore read. */
const model = {
  schema_version: '1.1',
  type_definitions: [
    { type: 'user' },
    {
      type: 'entity',
      relations: Object.fromEntries(relations.map(relation => [relation, { this: {} }])),
      metadata: { relations: Object.fromEntries(relations.map(relation => [relation, { directly_related_user_types: assignable }])) },
    },
  ],
}

/** Tuples in one request, by OpenFGA's defaults (`OPENFGA_MAX_TUPLES_PER_WRITE`, page sizes of Read). */
const tuplesMax = 100
/** A user whom no policy names: what this user may do, everyone may do. */
const anybody = 'user:anybody'
/** Bypasses its caches, so that a removal is in effect when it is answered. */
const consistency = 'HIGHER_CONSISTENCY'

export function openClient(requests: OpenFgaRequests): OpenFgaClient {
  return {
    async makeStore() {
      const { id } = (await requests.post('/stores', { name: 'sluice' })) as { id: string }
      const made = (await requests.post(`/stores/${id}/authorization-models`, model)) as { authorization_model_id: string }
      return { storeId: id, modelId: made.authorization_model_id }
    },

    async check({ storeId, modelId }, subject, relation, object) {
      const user = subject === '*' ? anybody : toUser(subject)
      const body = { authorization_model_id: modelId, tuple_key: { user, relation, object: toObject(object) }, consistency }
      const { allowed } = (await requests.post(`/stores/${storeId}/check`, body)) as { allowed?: boolean }
      return allowed === true
    },

    async read({ storeId }, { subject, relation, object }, before) {
      const key = {
        object: object === undefined ? 'entity:' : toObject(object),
        ...(relation === undefined ? {} : { relation }),
        ...(subject === undefined ? {} : { user: toUser(subject) }),
      }
      const found: Policy[] = []
      let token = ''
      do {
        await before?.()
        const body = { tuple_key: key, page_size: tuplesMax, continuation_token: token, consistency }
        const page = (await requests.post(`/stores/${storeId}/read`, body)) as {
          tuples: readonly { readonly key: Tuple }[]
          continuation_token: string
        }
        found.push(...page.tuples.map(tuple => toPolicy(tuple.key)))
        token = page.continuation_token
      } while (token !== '')
      return found
    },

    async write({ storeId, modelId }, { add = [], remove = [] }, before) {
      const post = async (part: object): Promise<void> => {
        await before?.()
        await requests.post(`/stores/${storeId}/write`, { authorization_model_id: modelId, ...part })
      }
      for (const tuples of parts(remove)) await post({ deletes: { tuple_keys: tuples, on_missing: 'ignore' } })
      for (const tuples of parts(add)) await post({ writes: { tuple_keys: tuples, on_duplicate: 'ignore' } })
    },

    async objects({ storeId, modelId }, subject, relation) {
      const body = { authorization_model_id: modelId, type: 'entity', relation, user: toUser(subject), consistency }
      const found = (await requests.stream(`/stores/${storeId}/streamed-list-objects`, body, objectsMax)) as { readonly object: string }[]
      return found.map(({ object }) => toPolicyObject(object))
    },
  }
}

/** Leaves out duplicates, and policies that make the members of a group members of the same group: OpenFGA refuses both. */
function* parts(policies: readonly Policy[]): Generator<Tuple[]> {
  const said = policies.filter(({ subject, relation, object }) => subject !== `${object}#${relation}`)
  const tuples = new Map(said.map(policy => [`${policy.object} ${policy.relation} ${policy.subject}`, toTuple(policy)]))
  const all = [...tuples.values()]
  for (let from = 0; from < all.length; from += tuplesMax) yield all.slice(from, from + tuplesMax)
}

function toTuple({ subject, relation, object }: Policy): Tuple {
  return { user: toUser(subject), relation, object: toObject(object) }
}

const toUser = (subject: Subject): string => (subject.endsWith('#member') ? `entity:${subject}` : `user:${subject}`)
const toObject = (object: PolicyObject): string => `entity:${object}`
const toPolicyObject = (text: string): PolicyObject => text.replace('entity:', '') as ThingId | GroupId

function toPolicy({ user, relation, object }: Tuple): Policy {
  return { subject: user.replace(/^(user|entity):/, '') as Subject, relation, object: toPolicyObject(object) }
}
