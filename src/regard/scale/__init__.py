"""Prediction in parts: an input too large for one process, in many, here or on other machines.

Read in this order: parts, manifest, identity, worker, engine, local, ray_actors, driver, leads, predicting.
"""
