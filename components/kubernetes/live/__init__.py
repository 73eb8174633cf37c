"""The cluster's current contents: applied objects, read and compared; and objects of others."""
